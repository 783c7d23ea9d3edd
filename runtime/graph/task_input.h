#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "kernels/registry.h"
#include "runtime/graph/work_budget.h"

namespace pto::engine {

// The node that a graph is compiled for.
struct GraphTarget {
  const KernelSource* kernels = nullptr;
  // The number of clusters of each chip.
  std::vector<uint32_t> chip_clusters;
  // Those of the chips that run no tasks, because the host cannot dereference their memory. Shorter
  // than chip_clusters: the others run tasks.
  std::vector<bool> device_only;
  uint64_t max_tasks = 10'000'000;
  // For a graph, including both named and found dependencies.
  uint64_t max_dependencies = 200'000'000;
  // The work allowed for finding dependencies, in addition to what tasks and dependencies earn.
  uint64_t base_work = WorkBudget::kBase;
};

// A scalar of a task: its own number, or one of the graph's named scalars.
struct ScalarInput {
  enum class Kind { kFloat, kInteger, kBits, kNamed };
  Kind kind = Kind::kFloat;
  double f64 = 0;
  int64_t i64 = 0;
  uint64_t bits = 0;   // already converted to the type in the kernel's signature
  uint32_t named = 0;  // index from AddScalar
};

// The task is skipped as done unless the single element of the tensor compares true.
struct PredicateInput {
  uint32_t tensor = 0;
  uint32_t compare = 0;  // pto_compare
  int64_t value = 0;
};

// A task; all indices come from the builder.
struct TaskInput {
  // One chip's share of a task that spans several chips.
  struct Member {
    uint32_t chip = 0;
    absl::Span<const uint32_t> args;
  };

  uint32_t kernel = 0;
  uint32_t chip = 0;
  uint32_t core = 0;       // pto_core; 0 means the kernel's default
  uint32_t block_num = 0;  // 0 means 1
  bool require_sync_start = false;
  absl::Span<const uint32_t> args;
  absl::Span<const ScalarInput> scalars;
  // Indices of earlier tasks, in addition to the found dependencies.
  absl::Span<const uint32_t> dependencies;
  // Bit i: argument i creates no dependencies.
  uint32_t no_dependency_args = 0;
  // For a task on several chips, instead of `chip` and `args`: the task starts on all of them at
  // once, with `block_num` blocks on each.
  absl::Span<const Member> members;
  // For PTO_MIX: up to two kernels that the vector cores of each cluster run with the same tensors
  // and scalars. `kernel` then runs on the cube core.
  absl::Span<const uint32_t> vector_kernels;
  absl::optional<PredicateInput> predicate;
  int64_t timeout_ns = 0;  // from start to end; 0 means the run's task timeout
  absl::string_view name;
};

}  // namespace pto::engine

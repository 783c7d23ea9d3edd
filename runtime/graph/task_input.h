#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "kernels/registry.h"
#include "runtime/graph/work_budget.h"

namespace pto {

// What a graph is compiled for.
struct GraphTarget {
  const KernelSource* kernels = nullptr;
  // Number of clusters of each chip of the node.
  std::vector<uint32_t> chip_clusters;
  uint64_t max_tasks = 10'000'000;
  // Of a graph: those that tasks name, and those that follow from what they read and write.
  uint64_t max_dependencies = 200'000'000;
  // The work that finding them may take, beside what its tasks and dependencies allow for.
  uint64_t base_work = WorkBudget::kBase;
};

// A scalar of a task: a number of its own, or one of the graph's named scalars.
struct ScalarInput {
  enum class Kind { kFloat, kInteger, kBits, kNamed };
  Kind kind = Kind::kFloat;
  double f64 = 0;
  int64_t i64 = 0;
  uint64_t bits = 0;   // already as the kernel's signature says
  uint32_t named = 0;  // index from AddScalar
};

// A task is done without being run unless the tensor's one element compares true.
struct PredicateInput {
  uint32_t tensor = 0;
  uint32_t compare = 0;  // pto_compare
  int64_t value = 0;
};

// One task, with indices that the builder gave out.
struct TaskInput {
  // Part of a task over several chips.
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
  // Indices of earlier tasks, beside those that are found.
  absl::Span<const uint32_t> dependencies;
  // Bit i: argument i is no reason to wait for others, nor for others to wait.
  uint32_t no_dependency_args = 0;
  // Of a task over several chips, in place of `chip` and `args`: it starts on all of them at
  // once, with `block_num` blocks on each.
  absl::Span<const Member> members;
  // Up to two, beside `kernel`, which is then the cube core's: what the vector cores of each
  // cluster run, with the same tensors and scalars. For PTO_MIX.
  absl::Span<const uint32_t> vector_kernels;
  absl::optional<PredicateInput> predicate;
  int64_t timeout_ns = 0;  // from its start to its end; 0 means the run's limit for tasks
  absl::string_view name;
};

}  // namespace pto

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/registry.h"
#include "runtime/graph/image.h"

namespace pto {

// What a graph is compiled for.
struct GraphTarget {
  const KernelRegistry* kernels = nullptr;
  // Number of clusters of each chip of the node.
  std::vector<uint32_t> chip_clusters;
  uint64_t max_tasks = 10'000'000;
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

// One task, with indices that the builder gave out.
struct TaskInput {
  uint32_t kernel = 0;
  uint32_t chip = 0;
  uint32_t core = 0;       // pto_core; 0 means the kernel's default
  uint32_t block_num = 0;  // 0 means 1
  bool require_sync_start = false;
  absl::Span<const uint32_t> args;
  absl::Span<const ScalarInput> scalars;
  absl::Span<const uint32_t> dependencies;  // indices of earlier tasks
  absl::string_view name;
};

// Compiles a graph, task by task in program order. Everything that can be wrong is refused
// here, with the field at fault relative to the thing that is added (`args[1]`, `shape[0]`), so
// that a caller puts its own path before it. After an error the builder is of no use.
// Not thread-safe.
class GraphBuilder {
 public:
  explicit GraphBuilder(const GraphTarget& target) : target_(target) {}

  // Each returns the new thing's index, which counts from 0.
  absl::StatusOr<uint32_t> AddKernel(absl::string_view name);
  uint32_t AddSlot(absl::string_view name);
  absl::StatusOr<uint32_t> AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                     absl::Span<const int64_t> strides);
  absl::StatusOr<uint32_t> AddTensor(uint32_t slot, uint32_t layout, int64_t offset);
  uint32_t AddScalar(absl::string_view name, const ScalarInput& value);
  absl::StatusOr<uint32_t> AddTask(const TaskInput& task);

  uint32_t task_count() const { return static_cast<uint32_t>(tasks_.size()); }
  const pto_kernel_info& kernel(uint32_t index) const { return *kernel_infos_[index]; }
  uint32_t kernel_count() const { return static_cast<uint32_t>(kernel_infos_.size()); }

  // The bits that a kernel gets for a number. Errors are SCALAR_INVALID.
  static absl::StatusOr<uint64_t> ScalarBits(const ScalarInput& scalar,
                                             const pto_scalar_info& info);

  // Lays out the image. Call once, at the end.
  absl::StatusOr<std::shared_ptr<const GraphImage>> Build();

 private:
  ImageText AddText(absl::string_view text);
  absl::Status CheckLaunch(const TaskInput& task, ImageTask& record) const;
  absl::Status CheckArgs(const TaskInput& task);
  absl::Status AddScalars(const TaskInput& task);
  absl::Status AddDependencies(const TaskInput& task, ImageTask& record);

  const GraphTarget target_;
  std::vector<const pto_kernel_info*> kernel_infos_;
  std::vector<ImageKernel> kernels_;
  std::vector<ImageSlot> slots_;
  absl::flat_hash_map<std::string, uint32_t> slot_by_name_;
  std::vector<Layout> layouts_;
  std::vector<ImageTensor> tensors_;
  std::vector<uint32_t> args_;
  std::vector<ImageScalar> scalar_names_;
  std::vector<ScalarInput> named_values_;
  std::vector<uint64_t> scalar_values_;  // of the tasks' own scalars
  std::vector<uint32_t> scalar_refs_;    // own ones counted from kOwnScalar
  std::vector<ImageTask> tasks_;
  std::vector<uint32_t> dependencies_;  // of all tasks, in order
  // For each task, the last one that depends on it; 0, which depends on nothing, means none.
  std::vector<uint32_t> last_dependent_;
  std::vector<ImageText> task_names_;
  std::vector<char> text_;
  std::vector<bool> chip_used_;
  bool has_names_ = false;
};

}  // namespace pto

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/kernel.h"
#include "runtime/graph/access_map.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/dependency_table.h"
#include "runtime/graph/detail_table.h"
#include "runtime/graph/image.h"
#include "runtime/graph/image_writer.h"
#include "runtime/graph/overlap_check.h"
#include "runtime/graph/scalar_table.h"
#include "runtime/graph/task_input.h"
#include "runtime/graph/tensor_table.h"
#include "runtime/graph/text_table.h"
#include "runtime/graph/work_budget.h"

namespace pto::engine {

// Compiles a graph, task by task in program order. All input errors are reported here, with a field
// relative to the added object (`args[1]`, `shape[0]`), so that the caller can prefix its own path.
// Do not use the builder after an error. Not thread-safe.
//
// A task depends on the tasks that it names, and on earlier tasks that use the same memory:
// according to the directions of the kernels' arguments, a read waits for writes, and a write for
// reads and writes.
//
// A task that is launched like the previous task of the same kernel, with tensors of the same
// layouts, skips most checks; see AddUsual.
class GraphBuilder {
 public:
  struct Options {
    // Whether to find dependencies; otherwise there are only the named ones.
    bool find_dependencies = true;
    // Polled now and then; true aborts with CLIENT_GONE.
    WorkBudget::Cancelled cancelled = nullptr;
  };

  explicit GraphBuilder(const GraphTarget& target) : GraphBuilder(target, Options()) {}
  GraphBuilder(const GraphTarget& target, const Options& options)
      : target_(target),
        options_(options),
        max_dependencies_(std::min(target.max_dependencies, kMaxRecords)),
        accesses_(WorkBudget(options.cancelled, target.base_work)),
        next_look_(std::min(target.max_tasks, kTasksPerLook)),
        chip_used_(target.chip_clusters.size()) {}

  // The Add functions return the index of the new object, starting at 0. AddKernel looks the kernel
  // up in the target's table and may return KERNEL_UNKNOWN. The graph keeps the kernel, even if it
  // is removed from the table later.
  absl::StatusOr<uint32_t> AddKernel(absl::string_view name);
  uint32_t AddKernel(std::shared_ptr<const Kernel> kernel);
  uint32_t AddSlot(absl::string_view name) { return tensors_.AddSlot(name, text_); }
  absl::StatusOr<uint32_t> AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                     absl::Span<const int64_t> strides);
  absl::StatusOr<uint32_t> AddTensor(uint32_t slot, uint32_t layout, int64_t offset);
  uint32_t AddScalar(absl::string_view name, const ScalarInput& value) {
    return scalars_.AddNamed(text_.Add(name), value);
  }
  // A domain, for scalars of the type kDomainScalar, which refer to it like to a named scalar.
  uint32_t AddDomain(absl::string_view name) { return scalars_.AddDomain(text_.Add(name)); }
  absl::StatusOr<uint32_t> AddTask(const TaskInput& task);

  uint32_t task_count() const { return task_count_; }
  // The work spent on finding dependencies so far.
  uint64_t work() const { return accesses_.budget().spent(); }
  const pto_kernel_info& kernel(uint32_t index) const { return *kernel_infos_[index]; }
  uint32_t kernel_count() const { return static_cast<uint32_t>(kernel_infos_.size()); }

  // Converts a number to the bits that a kernel receives. Errors are SCALAR_INVALID.
  static absl::StatusOr<uint64_t> ScalarBits(const ScalarInput& scalar,
                                             const pto_scalar_info& info) {
    return ScalarTable::Bits(scalar, info);
  }

  // Writes the image. Call once, at the end.
  absl::StatusOr<std::shared_ptr<const GraphImage>> Build();

 private:
  // How the last task without details of a kernel was launched, and its record.
  struct Launch {
    uint32_t chip = 0;
    uint32_t core = 0;
    uint32_t block_num = 0;
    bool require_sync_start = false;
    bool known = false;
    bool has_more = false;  // more to check than the arguments
    ImageTask record;
  };

  // Adds a task, except its scalars and dependencies, if it is like an earlier one. Returns false
  // otherwise; then AddUnusual must check everything except the dependencies.
  bool AddUsual(const TaskInput& task, ImageTask& record);
  absl::Status AddUnusual(const TaskInput& task, ImageTask& record);
  absl::Status AddArgs(const TaskInput& task);
  // Checks whether arguments overlap.
  absl::Status CheckOverlaps(const TaskInput& task);
  // Asks a kernel that works in phases whether its members fit together.
  absl::Status CheckPlan(const TaskInput& task, const ImageTask& record) const;
  absl::Status AddDependencies(const TaskInput& task, ImageTask& record);
  // The error for a dependency that is not an earlier task.
  absl::Status LaterTaskError(absl::Span<const uint32_t> dependencies) const;
  // The error for too many dependencies, or too much work to find them. `before` is the number of
  // dependencies before the task.
  absl::Status DependencyCountError(const TaskInput& task, uint64_t before) const;
  void FindDependencies(const TaskInput& task);
  void FindWithDetail(const TaskInput& task);
  void FindInArgs(uint32_t kernel, absl::Span<const uint32_t> args, uint32_t no_dependency_args);

  // Number of tasks between two checks for cancellation where the work is not charged to the
  // budget.
  static constexpr uint64_t kTasksPerLook = 8192;
  // Records refer to each other with 32-bit indices.
  static constexpr uint64_t kMaxRecords = std::numeric_limits<uint32_t>::max();

  const GraphTarget target_;
  const Options options_;
  const uint64_t max_dependencies_;
  std::vector<std::shared_ptr<const Kernel>> owned_kernels_;
  std::vector<const pto_kernel_info*>
      kernel_infos_;  // points into owned_kernels_; all tables below have the same indices
  std::vector<ImageKernel> kernels_;
  std::vector<Launch> launches_;  // of each kernel
  TextTable text_;
  TensorTable tensors_;
  ScalarTable scalars_;
  DetailTable details_;
  DependencyTable dependencies_;
  AccessMap accesses_;                // one region for each tensor
  std::vector<uint32_t> footprints_;  // of each layout
  std::vector<uint32_t> found_;       // dependencies of the current task
  BigVector<ImageText> task_names_;   // ends at the last task that has a name
  uint64_t next_look_;                // AddUnusual checks for cancellation at this task
  std::vector<bool> chip_used_;
  ImageWriter image_;  // contains the tasks
  uint32_t task_count_ = 0;
  uint64_t flags_ = 0;  // of the image's header
  OverlapCheck overlaps_;
};

}  // namespace pto::engine

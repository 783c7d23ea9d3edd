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

namespace pto {

// Compiles a graph, task by task in program order. Everything that can be wrong is refused
// here, with the field at fault relative to the thing that is added (`args[1]`, `shape[0]`), so
// that a caller puts its own path before it. After an error the builder is of no use.
// Not thread-safe.
//
// A task depends on those that it names, and on those before it that use the same memory, by
// the directions of the kernels' arguments: a read waits for writes, a write for both.
//
// A task that is launched like the one before of the same kernel, with tensors of the same
// layouts, needs no second look at all that; see AddUsual.
class GraphBuilder {
 public:
  struct Options {
    // Whether dependencies are found; else there are only those that tasks name.
    bool find_dependencies = true;
    // Asked now and then; true ends the work, with CLIENT_GONE.
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

  // Each returns the new thing's index, which counts from 0.
  // Looks the kernel up in the target's table: KERNEL_UNKNOWN. The graph keeps the kernel that it
  // finds, even if that is removed from the table.
  absl::StatusOr<uint32_t> AddKernel(absl::string_view name);
  uint32_t AddKernel(std::shared_ptr<const Kernel> kernel);
  uint32_t AddSlot(absl::string_view name) { return tensors_.AddSlot(name, text_); }
  absl::StatusOr<uint32_t> AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                     absl::Span<const int64_t> strides);
  absl::StatusOr<uint32_t> AddTensor(uint32_t slot, uint32_t layout, int64_t offset);
  uint32_t AddScalar(absl::string_view name, const ScalarInput& value) {
    return scalars_.AddNamed(text_.Add(name), value);
  }
  absl::StatusOr<uint32_t> AddTask(const TaskInput& task);

  uint32_t task_count() const { return task_count_; }
  // What finding the dependencies took so far.
  uint64_t work() const { return accesses_.budget().spent(); }
  const pto_kernel_info& kernel(uint32_t index) const { return *kernel_infos_[index]; }
  uint32_t kernel_count() const { return static_cast<uint32_t>(kernel_infos_.size()); }

  // The bits that a kernel gets for a number. Errors are SCALAR_INVALID.
  static absl::StatusOr<uint64_t> ScalarBits(const ScalarInput& scalar,
                                             const pto_scalar_info& info) {
    return ScalarTable::Bits(scalar, info);
  }

  // Lays out the image. Call once, at the end.
  absl::StatusOr<std::shared_ptr<const GraphImage>> Build();

 private:
  // How a kernel's last task without detail was launched, and what its record came to.
  struct Launch {
    uint32_t chip = 0;
    uint32_t core = 0;
    uint32_t block_num = 0;
    bool require_sync_start = false;
    bool known = false;
    bool has_more = false;  // to look at than its arguments alone
    ImageTask record;
  };

  // Adds what is in a task beside its scalars and dependencies, if it is like one before. Returns
  // false if it is not: then the other function has to look at all but the dependencies.
  bool AddUsual(const TaskInput& task, ImageTask& record);
  absl::Status AddUnusual(const TaskInput& task, ImageTask& record);
  absl::Status AddArgs(const TaskInput& task);
  // Looks at whether arguments overlap, for a task with tensors of the usual layouts.
  absl::Status CheckOverlaps(const TaskInput& task);
  // Asks a kernel that works in phases whether all members fit together.
  absl::Status CheckPlan(const TaskInput& task, const ImageTask& record) const;
  absl::Status AddDependencies(const TaskInput& task, ImageTask& record);
  // What is wrong with them. One is no earlier task.
  absl::Status LaterTaskError(absl::Span<const uint32_t> dependencies) const;
  // There are too many, or finding them takes too long. So many there were before the task.
  absl::Status DependencyCountError(const TaskInput& task, uint64_t before) const;
  void FindDependencies(const TaskInput& task);
  void FindWithDetail(const TaskInput& task);
  void FindInArgs(uint32_t kernel, absl::Span<const uint32_t> args, uint32_t no_dependency_args);

  // So many tasks are added between two looks at whether the work is cancelled, where it is not
  // counted.
  static constexpr uint64_t kTasksPerLook = 8192;
  // Records refer to each other in 32 bits.
  static constexpr uint64_t kMaxRecords = std::numeric_limits<uint32_t>::max();

  const GraphTarget target_;
  const Options options_;
  const uint64_t max_dependencies_;
  std::vector<std::shared_ptr<const Kernel>> owned_kernels_;
  std::vector<const pto_kernel_info*> kernel_infos_;  // of these, as are those in the tables below
  std::vector<ImageKernel> kernels_;
  std::vector<Launch> launches_;  // of the kernels
  TextTable text_;
  TensorTable tensors_;
  ScalarTable scalars_;
  DetailTable details_;
  DependencyTable dependencies_;
  AccessMap accesses_;                // its regions are the tensors
  std::vector<uint32_t> footprints_;  // of the layouts
  std::vector<uint32_t> found_;       // by the task at hand
  BigVector<ImageText> task_names_;   // up to the last task that has one
  uint64_t next_look_;                // at this task, which is an unusual one
  std::vector<bool> chip_used_;
  ImageWriter image_;  // has the tasks
  uint32_t task_count_ = 0;
  uint64_t flags_ = 0;  // of the image's header
  OverlapCheck overlaps_;
};

}  // namespace pto

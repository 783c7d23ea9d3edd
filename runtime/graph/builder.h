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
#include "runtime/graph/access_map.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/image.h"
#include "runtime/graph/task_input.h"

namespace pto {

// Compiles a graph, task by task in program order. Everything that can be wrong is refused
// here, with the field at fault relative to the thing that is added (`args[1]`, `shape[0]`), so
// that a caller puts its own path before it. After an error the builder is of no use.
// Not thread-safe.
//
// A task depends on those that it names, and on those before it that use the same memory, by
// the directions of the kernels' arguments: a read waits for writes, a write for both.
class GraphBuilder {
 public:
  struct Options {
    // Whether dependencies are found; else there are only those that tasks name.
    bool find_dependencies = true;
  };

  explicit GraphBuilder(const GraphTarget& target) : GraphBuilder(target, Options()) {}
  GraphBuilder(const GraphTarget& target, const Options& options)
      : target_(target), options_(options), chip_used_(target.chip_clusters.size()) {}

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
  // Those of one task.
  struct Dependents {
    uint32_t last = 0;  // 0, which depends on nothing, means none
    uint32_t count = 0;
  };

  ImageText AddText(absl::string_view text);
  absl::Status AddArgs(const TaskInput& task);
  absl::Status CheckArgs(uint32_t kernel, absl::Span<const uint32_t> args);
  // Lets the kernel look at its tensors, whose types it takes.
  // What a kernel is shown of a tensor before it runs.
  pto_tensor Described(uint32_t tensor) const;
  // Asks a kernel that works in phases whether all members fit together.
  absl::Status CheckPlan(const TaskInput& task, const ImageTask& record);
  absl::Status AskKernel(uint32_t kernel, absl::Span<const uint32_t> args);
  // Says which chip the tensor's memory is on. An error has no field.
  absl::Status PlaceTensor(const pto_kernel_info& info, uint32_t chip, uint32_t tensor);
  absl::Status AddDetail(const TaskInput& task, ImageTask& record);
  absl::Status AddScalars(const TaskInput& task);
  absl::Status AddDependencies(const TaskInput& task, ImageTask& record);
  void FindDependencies(const TaskInput& task);
  // The task that is being added waits for this one. Once, however often it is said.
  void AddDependency(uint32_t before) {
    const auto task = static_cast<uint32_t>(tasks_.size());
    Dependents& dependents = dependents_[before];
    if (dependents.last == task) return;
    dependents.last = task;
    ++dependents.count;
    dependencies_.push_back(before);
  }

  const GraphTarget target_;
  const Options options_;
  std::vector<const pto_kernel_info*> kernel_infos_;
  std::vector<ImageKernel> kernels_;
  // For each kernel, the layouts of the last tensors that it took, which need no second look.
  std::vector<std::vector<uint32_t>> accepted_layouts_;
  std::vector<ImageSlot> slots_;
  absl::flat_hash_map<std::string, uint32_t> slot_by_name_;
  std::vector<Layout> layouts_;
  BigVector<ImageTensor> tensors_;
  BigVector<uint32_t> args_;
  std::vector<ImageScalar> scalar_names_;
  std::vector<ScalarInput> named_values_;
  BigVector<uint64_t> scalar_values_;  // of the tasks' own scalars
  BigVector<uint32_t> scalar_refs_;    // own ones counted from kOwnScalar
  BigVector<ImageTask> tasks_;
  std::vector<ImageDetail> details_;
  std::vector<uint32_t> members_;
  BigVector<uint32_t> dependencies_;  // of all tasks, in order
  BigVector<Dependents> dependents_;
  AccessMap accesses_;                // its regions are the tensors
  std::vector<uint32_t> footprints_;  // of the layouts
  std::vector<uint32_t> found_;       // by the task at hand
  BigVector<ImageText> task_names_;   // up to the last task that has one
  std::vector<char> text_;
  std::vector<bool> chip_used_;
};

}  // namespace pto

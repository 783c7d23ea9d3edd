#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/kernel.h"
#include "runtime/graph/access_map.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/image.h"
#include "runtime/graph/task_input.h"

namespace pto::engine {

// A part of an open graph that is executed as soon as it is complete.
struct GraphSegment {
  // A task of the segment waits for a task of an earlier segment.
  struct Link {
    uint32_t task = 0;    // index in the image
    uint32_t before = 0;  // number in the whole graph
  };

  std::shared_ptr<const GraphImage> image;
  uint32_t first_task = 0;      // number of the image's first task in the whole graph
  std::vector<uint32_t> slots;  // index in the whole graph of each slot of the image
  std::vector<Link> links;      // sorted by task
};

// A graph that receives more tasks while its first ones already run. Its kernels, slots, layouts,
// tensors and scalars are like those of a GraphBuilder and stay. Its tasks do not: they are cut
// into segments, and each segment is an image that contains only what its tasks use.
//
// Dependencies are found over all segments by one AccessMap, whose owners are task numbers in the
// whole graph. Dependencies within a segment are edges of its image; the others are links. The
// executor of the segments registers the later task with the earlier one, and reports with
// ForgetBefore how far all tasks have ended, so that the state depends only on the tasks that have
// not ended. A failed task must not be forgotten as long as its failure has to reach later tasks.
//
// Errors and their fields are those of GraphBuilder; its limits for a graph apply to each segment
// here. Do not use the graph after an error. Not thread-safe.
class OpenGraph {
 public:
  using Options = GraphBuilder::Options;
  // What is known about the memory of a slot.
  struct SlotMemory {
    // With ImageSlot::kUnused, the first task that needs a chip decides.
    uint32_t chip = ImageSlot::kUnused;
    uint64_t bytes = ~uint64_t{0};
  };

  explicit OpenGraph(const GraphTarget& target) : OpenGraph(target, Options()) {}
  OpenGraph(const GraphTarget& target, const Options& options);

  // The Add functions return the index of the new object, starting at 0. AddKernel is as in
  // GraphBuilder. All later segments use the kernel found here, even if it is removed from the
  // table.
  absl::StatusOr<uint32_t> AddKernel(absl::string_view name);
  uint32_t AddKernel(std::shared_ptr<const Kernel> kernel);
  // Adding a known name returns the existing slot unchanged.
  uint32_t AddSlot(absl::string_view name) { return AddSlot(name, SlotMemory()); }
  uint32_t AddSlot(absl::string_view name, const SlotMemory& memory);
  absl::StatusOr<uint32_t> AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                     absl::Span<const int64_t> strides);
  absl::StatusOr<uint32_t> AddTensor(uint32_t slot, uint32_t layout, int64_t offset);
  // As in GraphBuilder: scalars refer to it like to a named scalar.
  uint32_t AddDomain(absl::string_view name);
  // Returns the task's number. Its dependencies are task numbers too; a forgotten task counts as
  // ended.
  absl::StatusOr<uint32_t> AddTask(const TaskInput& task);

  // Returns the tasks added since the last cut; there must be at least one.
  absl::StatusOr<GraphSegment> Cut();
  uint32_t task_count() const { return next_task_; }
  const pto_kernel_info& kernel(uint32_t index) const { return kernels_[index]->info(); }
  uint32_t uncut_tasks() const { return next_task_ - first_task_; }

  // All tasks below `task` have ended.
  void ForgetBefore(uint32_t task);
  // Memory that grows with the number of tasks that have not ended; excludes tensors.
  size_t live_readers() const { return accesses_.live_readers(); }
  // The work spent on finding dependencies so far.
  uint64_t work() const { return accesses_.budget().spent(); }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  // The indices of objects in the current segment; kNone if the segment does not use them yet.
  struct Places {
    std::vector<uint32_t> of;
    std::vector<uint32_t> used;

    void Add() { of.push_back(kNone); }
    void Set(uint32_t index, uint32_t place) {
      of[index] = place;
      used.push_back(index);
    }
    void Clear() {
      for (const uint32_t index : used) of[index] = kNone;
      used.clear();
    }
  };

  absl::StatusOr<uint32_t> PlaceKernel(uint32_t kernel);
  absl::StatusOr<uint32_t> PlaceTensor(uint32_t tensor);
  // The scalars, with the segment's indices of their domains.
  absl::StatusOr<absl::Span<const ScalarInput>> PlaceScalars(absl::Span<const ScalarInput> scalars);
  // Appends the segment's indices of the tensors.
  absl::Status PlaceArgs(absl::Span<const uint32_t> args, std::vector<uint32_t>* placed);
  absl::Status FindDependencies(const TaskInput& task);
  void FindOf(uint32_t kernel, const TaskInput& task, absl::Span<const uint32_t> args);
  absl::Status CheckDependencies(const TaskInput& task) const;
  // Checks that each slot is on one chip, over all segments. The segment has already accepted the
  // task.
  absl::Status CheckChips(const TaskInput& task);
  absl::Status CheckChip(const pto_kernel_info& info, uint32_t chip, uint32_t tensor);
  std::unique_ptr<GraphBuilder> NewSegment() const;

  struct Slot {
    std::string name;
    SlotMemory memory;
  };

  const GraphTarget target_;
  const Options options_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;
  std::vector<Slot> slots_;
  absl::flat_hash_map<std::string, uint32_t> slot_by_name_;
  std::vector<Layout> layouts_;
  std::vector<uint32_t> footprints_;  // of each layout
  std::vector<ImageTensor> tensors_;
  std::vector<std::string> domains_;
  AccessMap accesses_;  // one region for each tensor

  std::unique_ptr<GraphBuilder> segment_;
  Places kernel_places_, slot_places_, layout_places_, tensor_places_, domain_places_;
  std::vector<GraphSegment::Link> links_;
  uint64_t segment_dependencies_ = 0;  // includes links
  uint32_t first_task_ = 0;            // of the segment
  uint32_t next_task_ = 0;
  uint32_t ended_ = 0;  // tasks below this have ended

  // For the current task; members, to avoid allocations.
  std::vector<uint32_t> found_, args_, vector_kernels_, dependencies_;
  std::vector<TaskInput::Member> members_;
  std::vector<ScalarInput> scalars_;
};

}  // namespace pto::engine

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

namespace pto {

// A part of an open graph that is executed by itself, as soon as it is there.
struct GraphSegment {
  // A task of the segment waits for one of an earlier segment.
  struct Link {
    uint32_t task = 0;    // of the image
    uint32_t before = 0;  // number in the whole graph
  };

  std::shared_ptr<const GraphImage> image;
  uint32_t first_task = 0;      // number of the image's first task in the whole graph
  std::vector<uint32_t> slots;  // of the whole graph, one for each of the image's
  std::vector<Link> links;      // in order of their tasks
};

// A graph to which tasks are added while the first ones run already. It has kernels, slots,
// layouts, tensors and scalars like a GraphBuilder's, which stay; the tasks do not: they are cut
// into segments, each of them an image of its own with only what its tasks use.
//
// Dependencies are found over all segments, by one AccessMap whose owners are the tasks' numbers
// in the whole graph. Those within a segment are edges of its image. The others are links: who
// executes the segments registers the later task with the earlier one, and tells by ForgetBefore
// how far all tasks have ended, so that what is kept depends on the tasks that have not. A task
// that has failed must not be forgotten as long as its failure is to reach later ones.
//
// Everything that can be wrong is refused as by a GraphBuilder, with the same fields; what is
// limited there for a graph is limited here for a segment. After an error the graph is of no use.
// Not thread-safe.
class OpenGraph {
 public:
  using Options = GraphBuilder::Options;
  // What is known of the memory of a slot.
  struct SlotMemory {
    // ImageSlot::kUnused lets the first task that needs a chip decide.
    uint32_t chip = ImageSlot::kUnused;
    uint64_t bytes = ~uint64_t{0};
  };

  explicit OpenGraph(const GraphTarget& target) : OpenGraph(target, Options()) {}
  OpenGraph(const GraphTarget& target, const Options& options);

  // Each returns the new thing's index, which counts from 0.
  // As in GraphBuilder. All later segments use the kernel that was found here, even if it is
  // removed from the table meanwhile.
  absl::StatusOr<uint32_t> AddKernel(absl::string_view name);
  uint32_t AddKernel(std::shared_ptr<const Kernel> kernel);
  // A slot that is known by this name stays what it is.
  uint32_t AddSlot(absl::string_view name) { return AddSlot(name, SlotMemory()); }
  uint32_t AddSlot(absl::string_view name, const SlotMemory& memory);
  absl::StatusOr<uint32_t> AddLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                     absl::Span<const int64_t> strides);
  absl::StatusOr<uint32_t> AddTensor(uint32_t slot, uint32_t layout, int64_t offset);
  // Returns the task's number. Those that it names as dependencies are numbers, too; one that is
  // forgotten has ended.
  absl::StatusOr<uint32_t> AddTask(const TaskInput& task);

  // What was added since the last cut; there must be a task.
  absl::StatusOr<GraphSegment> Cut();
  uint32_t task_count() const { return next_task_; }
  const pto_kernel_info& kernel(uint32_t index) const { return kernels_[index]->info(); }
  uint32_t uncut_tasks() const { return next_task_ - first_task_; }

  // All tasks below have ended.
  void ForgetBefore(uint32_t task);
  // Memory that depends on how many tasks have not ended, beside the tensors.
  size_t live_readers() const { return accesses_.live_readers(); }
  // What finding the dependencies took so far.
  uint64_t work() const { return accesses_.budget().spent(); }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  // Where things are in the segment that is being made; kNone while it does not have them.
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
  // Appends the places of the tensors.
  absl::Status PlaceArgs(absl::Span<const uint32_t> args, std::vector<uint32_t>* placed);
  absl::Status FindDependencies(const TaskInput& task);
  void FindOf(uint32_t kernel, const TaskInput& task, absl::Span<const uint32_t> args);
  absl::Status CheckDependencies(const TaskInput& task) const;
  // Sees to it that a slot is on one chip, over all segments. The part has taken the task.
  absl::Status CheckChips(const TaskInput& task);
  absl::Status CheckChip(const pto_kernel_info& info, uint32_t chip, uint32_t tensor);
  std::unique_ptr<GraphBuilder> NewPart() const;

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
  std::vector<uint32_t> footprints_;  // of the layouts
  std::vector<ImageTensor> tensors_;
  AccessMap accesses_;  // its regions are the tensors

  std::unique_ptr<GraphBuilder> part_;
  Places kernel_places_, slot_places_, layout_places_, tensor_places_;
  std::vector<GraphSegment::Link> links_;
  uint64_t part_dependencies_ = 0;  // links among them
  uint32_t first_task_ = 0;         // of the part
  uint32_t next_task_ = 0;
  uint32_t ended_ = 0;  // tasks below have

  // Of the task at hand; kept so that it costs no allocation.
  std::vector<uint32_t> found_, args_, vector_kernels_, dependencies_;
  std::vector<TaskInput::Member> members_;
};

}  // namespace pto

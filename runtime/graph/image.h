#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "kernels/kernel.h"
#include "kernels/pto_kernel.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/slot_use.h"

namespace pto::engine {

// The records below are plain data without pointers. They refer to each other by index, so an image
// can be copied or mapped at any address.

// A range of the image's text.
struct ImageText {
  uint32_t begin = 0;
  uint32_t size = 0;
};

struct ImageKernel {
  ImageText name;
  uint32_t arg_count = 0;
  uint32_t scalar_count = 0;
};

// A buffer that a launch can bind.
struct ImageSlot {
  static constexpr uint32_t kUnused = 0xffffffff;   // used by no task
  static constexpr uint32_t kAnyChip = 0xfffffffe;  // used only by copies and signals
  ImageText name;
  uint32_t chip = kUnused;
  uint32_t largest_tensor = 0;  // the tensor that determines min_bytes
  uint64_t min_bytes = 0;
};

struct ImageTensor {
  uint32_t slot = 0;
  uint32_t layout = 0;
  int64_t offset = 0;  // in elements
};

// A scalar that a launch can bind by name.
struct ImageScalar {
  ImageText name;
  uint32_t type = 0;  // pto_scalar_type that all its uses agree on; 0 while unused
  uint32_t reserved = 0;
};

// Bits for what distinguishes a task from a plain one, whose blocks each call a kernel as soon as a
// core is free.
enum TaskTrait : uint8_t {
  kTaskWaits = 1,    // one of its kernels has PTO_KERNEL_WAITS
  kTaskBlocks = 2,   // one of its kernels has PTO_KERNEL_BLOCKS: no thread of the engine runs it
  kTaskGang = 4,     // all blocks, on all its chips, start together
  kTaskControl = 8,  // executed by the engine itself, without a core
  kTaskPredicated = 16,  // its detail has a predicate
  kTaskTimed = 32,       // its detail has a timeout
  kTaskMixed = 64,       // its detail has kernels for the vector cores
  kTaskHasDetail = 128,  // there is an ImageDetail
};

struct ImageTask {
  uint32_t kernel = 0;
  uint32_t first_arg = 0;        // into args; as many as the kernel has
  uint32_t first_scalar = 0;     // into scalar_refs; as many as the kernel has
  uint32_t first_successor = 0;  // into successors; up to that of the next task
  uint32_t dependencies = 0;     // number of tasks that must end first
  uint32_t block_num = 1;        // on each chip
  uint16_t chip = 0;             // the first one of a task with members
  uint8_t core = 0;              // pto_core
  uint8_t traits = 0;            // TaskTrait

  bool plain() const { return (traits & ~kTaskHasDetail) == 0; }
  // Whether the task is a single kernel call. Other tasks end when their last call has ended.
  bool one_call() const { return block_num == 1 && (traits & (kTaskGang | kTaskMixed)) == 0; }
};

// Details that only few tasks have, sorted by task.
struct ImageDetail {
  static constexpr uint32_t kNone = 0xffffffff;
  uint32_t task = 0;
  uint32_t no_dependency_args = 0;  // bit i: argument i of each member creates no dependency
  // For a task with members on several chips: their number, and the index of their chips in
  // `members`. The arguments of a member follow those of the previous one.
  uint32_t first_member = 0;
  uint32_t member_count = 1;
  // For a PTO_MIX task: the kernels that the vector cores run with the same arguments, beside the
  // task's kernel on the cube core. kNone: no kernel. If both are kNone, the kernel owns the whole
  // cluster.
  uint32_t vector_kernels[2] = {kNone, kNone};
  // The task is skipped as done unless the single element of this tensor compares true.
  uint32_t predicate_tensor = kNone;
  uint32_t predicate_compare = 0;  // pto_compare
  int64_t predicate_value = 0;
  int64_t timeout_ns = 0;  // from start to end; 0 means the run's task timeout
};

// The number and position of the records of one kind.
struct ImageSection {
  uint64_t begin = 0;  // in bytes from the start of the image
  uint64_t count = 0;
};

struct ImageHeader {
  static constexpr uint64_t kMagic = 0x314547414d494f54;  // "TOIMAGE1"
  // Bits of `flags`, and the shift of the combined traits of all tasks.
  static constexpr uint64_t kFindsDependencies = 1;
  static constexpr uint64_t kHasMultiBlockTasks = 2;
  static constexpr uint32_t kTraitsShift = 8;
  // The shift of a bit mask of the core types used.
  static constexpr uint32_t kCoresShift = 16;
  uint64_t magic = kMagic;
  uint64_t bytes = 0;
  uint64_t flags = 0;
  ImageSection kernels, slots, layouts, tensors, args, scalar_names, scalar_values, scalar_refs,
      tasks, successors, roots, chips, task_names, text, details, members, slot_uses;
};

// A compiled graph: flat arrays in one piece of memory. Immutable, so any number of runs on any
// threads can share it. It keeps its kernels alive. Made by GraphBuilder.
class GraphImage {
 public:
  // Takes the bytes of a whole image, and the kernels in the order of its kernel section.
  GraphImage(BigVector<std::byte> bytes, std::vector<std::shared_ptr<const Kernel>> kernels);
  GraphImage(const GraphImage&) = delete;
  GraphImage& operator=(const GraphImage&) = delete;

  uint32_t task_count() const { return static_cast<uint32_t>(header().tasks.count - 1); }
  uint64_t edge_count() const { return header().successors.count; }
  // Whether dependencies were found from memory accesses, in addition to the named ones.
  bool finds_dependencies() const {
    return (header().flags & ImageHeader::kFindsDependencies) != 0;
  }
  // Whether some task has several kernel calls.
  bool has_multi_block_tasks() const {
    return (header().flags & ImageHeader::kHasMultiBlockTasks) != 0;
  }
  // Whether each task is a single call of a plain kernel, and all use the same core type of the
  // same chip.
  bool alike() const { return alike_; }
  // The combined traits of all tasks.
  uint8_t traits() const {
    return static_cast<uint8_t>(header().flags >> ImageHeader::kTraitsShift);
  }
  size_t bytes() const { return bytes_.size(); }
  // The whole image; an image made from a copy is equivalent.
  absl::Span<const std::byte> data() const { return bytes_; }

  // Has one extra task at the end, which only terminates the successors.
  absl::Span<const ImageTask> tasks() const { return tasks_; }
  absl::Span<const uint32_t> successors(uint32_t task) const {
    const uint32_t begin = tasks_[task].first_successor;
    return successors_.subspan(begin, tasks_[task + 1].first_successor - begin);
  }
  // Successors of all tasks: see ImageTask.
  absl::Span<const uint32_t> all_successors() const { return successors_; }
  // Tasks without dependencies.
  absl::Span<const uint32_t> roots() const { return roots_; }
  // Chips that the tasks use, in increasing order.
  absl::Span<const uint32_t> chips() const { return chips_; }

  // The index of a chip in chips(); the chip must be there.
  uint32_t place_of_chip(uint32_t chip) const { return place_of_chip_[chip]; }

  // Names and counts for the tasks' kernels.
  absl::Span<const ImageKernel> kernels() const { return Section<ImageKernel>(header().kernels); }
  // What runs have learnt about a kernel in this graph: whether it takes long enough to be worth
  // waking another thread. Any thread may read and write it.
  enum class Pace : uint8_t { kUnknown, kShort, kLong };
  Pace pace(uint32_t task) const {
    return paces_[tasks_[task].kernel].load(std::memory_order_relaxed);
  }
  void SetPace(uint32_t task, Pace pace) const {
    std::atomic<Pace>& known = paces_[tasks_[task].kernel];
    // Write only a change, so that the cache line stays shared.
    if (known.load(std::memory_order_relaxed) != pace) {
      known.store(pace, std::memory_order_relaxed);
    }
  }
  const pto_kernel_info& kernel(uint32_t task) const { return kernel_info(tasks_[task].kernel); }
  // By index in kernels().
  const pto_kernel_info& kernel_info(uint32_t index) const { return kernels_[index]->info(); }
  // The closure: see pto_context.kernel_data.
  const void* kernel_data(uint32_t index) const { return kernels_[index]->data(); }
  // The index of the kernel that a block of the task calls on that core of a cluster: see
  // pto_context.lane.
  uint32_t kernel_index(uint32_t task, uint32_t cluster_lane) const {
    return cluster_lane == 0 ? tasks_[task].kernel : detail(task)->vector_kernels[cluster_lane - 1];
  }
  // The lane that runs a kernel, by its index; nullptr: the engine calls it.
  LanePort* lane(uint32_t index) const { return kernels_[index]->lane(); }
  // Whether a kernel of the image runs on a lane, and whether one of the task does.
  bool has_lanes() const { return has_lanes_; }
  bool UsesLane(uint32_t task) const;
  // The kernels by index, for another image that shares them.
  absl::Span<const std::shared_ptr<const Kernel>> shared_kernels() const { return owned_kernels_; }
  // The arguments of one member, if the task has members.
  absl::Span<const uint32_t> args(uint32_t task, uint32_t member = 0) const {
    const uint32_t count = kernel(task).argument_count;
    return args_.subspan(tasks_[task].first_arg + member * count, count);
  }
  // The task's details; nullptr for most tasks.
  const ImageDetail* detail(uint32_t task) const {
    return (tasks_[task].traits & kTaskHasDetail) == 0 ? nullptr : FindDetail(task);
  }
  absl::Span<const ImageDetail> details() const { return details_; }
  // The chips of a task, in order of its members.
  absl::Span<const uint32_t> members(const ImageDetail& detail) const {
    return members_.subspan(detail.first_member, detail.member_count);
  }
  // Blocks of a task on all its chips.
  uint32_t blocks(uint32_t task) const {
    const ImageDetail* const detail = this->detail(task);
    return tasks_[task].block_num * (detail == nullptr ? 1 : detail->member_count);
  }
  // The cores of a cluster on which a block of the task calls a kernel, as bits: see
  // pto_context.lane.
  uint32_t cluster_lanes(uint32_t task) const {
    if ((tasks_[task].traits & kTaskMixed) == 0) return 1;
    const ImageDetail& detail = *this->detail(task);
    return 1 | (detail.vector_kernels[0] != ImageDetail::kNone ? 2u : 0u) |
           (detail.vector_kernels[1] != ImageDetail::kNone ? 4u : 0u);
  }
  // Kernel calls of a task: all lanes of all blocks on all chips.
  uint32_t calls(uint32_t task) const {
    return blocks(task) * static_cast<uint32_t>(std::popcount(cluster_lanes(task)));
  }
  absl::Span<const uint32_t> scalar_refs(uint32_t task) const {
    return scalar_refs_.subspan(tasks_[task].first_scalar, kernel(task).scalar_count);
  }
  absl::Span<const ImageTensor> tensors() const { return tensors_; }
  absl::Span<const Layout> layouts() const { return layouts_; }
  absl::Span<const ImageSlot> slots() const { return slots_; }
  // How the graph uses each slot.
  absl::Span<const SlotUse> slot_uses() const { return slot_uses_; }
  // The index of the slot or named scalar with that name, if any.
  absl::optional<uint32_t> FindSlot(absl::string_view name) const;
  absl::optional<uint32_t> FindScalar(absl::string_view name) const;
  // The names of the first scalars in scalar_values().
  absl::Span<const ImageScalar> scalar_names() const { return scalar_names_; }
  // The bits of all scalars, named ones first.
  absl::Span<const uint64_t> scalar_values() const { return scalar_values_; }

  absl::string_view text(ImageText range) const {
    return absl::string_view(text_.data() + range.begin, range.size);
  }
  // Empty when the task has no name.
  absl::string_view task_name(uint32_t task) const {
    return task_names_.empty() ? absl::string_view() : text(task_names_[task]);
  }

 private:
  const ImageHeader& header() const { return *reinterpret_cast<const ImageHeader*>(bytes_.data()); }
  const ImageDetail* FindDetail(uint32_t task) const;
  template <typename T>
  absl::Span<const T> Section(const ImageSection& section) const {
    return {reinterpret_cast<const T*>(bytes_.data() + section.begin), section.count};
  }

  const BigVector<std::byte> bytes_;
  const std::vector<std::shared_ptr<const Kernel>> owned_kernels_;
  // The same kernels as raw pointers, so that the code that runs for each task touches no reference
  // count.
  std::vector<const Kernel*> kernels_;
  absl::Span<const ImageTask> tasks_;
  absl::Span<const uint32_t> successors_, roots_, chips_, args_, scalar_refs_, members_;
  absl::Span<const ImageDetail> details_;
  absl::Span<const ImageTensor> tensors_;
  absl::Span<const Layout> layouts_;
  absl::Span<const ImageSlot> slots_;
  absl::Span<const SlotUse> slot_uses_;
  absl::Span<const ImageScalar> scalar_names_;
  absl::Span<const uint64_t> scalar_values_;
  absl::Span<const ImageText> task_names_;
  absl::Span<const char> text_;
  std::vector<uint32_t> place_of_chip_;
  const std::unique_ptr<std::atomic<Pace>[]> paces_;  // one for each kernel
  // The keys point into `bytes_`.
  absl::flat_hash_map<absl::string_view, uint32_t> slot_by_name_;
  absl::flat_hash_map<absl::string_view, uint32_t> scalar_by_name_;
  bool alike_ = false;
  bool has_lanes_ = false;
};

}  // namespace pto::engine

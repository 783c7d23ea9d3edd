#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/layout.h"

namespace pto {

// The records below are plain data without pointers. They refer to each other by index, so an
// image means the same wherever it is mapped.

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
  static constexpr uint32_t kUnused = 0xffffffff;
  ImageText name;
  uint32_t chip = kUnused;      // kUnused when no task uses it
  uint32_t largest_tensor = 0;  // the one that needs min_bytes
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

struct ImageTask {
  uint32_t kernel = 0;
  uint32_t first_arg = 0;        // into args; as many as the kernel has
  uint32_t first_scalar = 0;     // into scalar_refs; as many as the kernel has
  uint32_t first_successor = 0;  // into successors; up to that of the next task
  uint32_t dependencies = 0;     // tasks that must end before
  uint32_t block_num = 1;
  uint16_t chip = 0;
  uint8_t core = 0;  // pto_core
  uint8_t reserved = 0;
};

// Number and place of the records of one kind.
struct ImageSection {
  uint64_t begin = 0;  // in bytes from the image's first
  uint64_t count = 0;
};

struct ImageHeader {
  static constexpr uint64_t kMagic = 0x314547414d494f54;  // "TOIMAGE1"
  uint64_t magic = kMagic;
  uint64_t bytes = 0;
  ImageSection kernels, slots, layouts, tensors, args, scalar_names, scalar_values, scalar_refs,
      tasks, successors, roots, chips, task_names, text;
};

// A compiled graph: one block of flat arrays, never changed after it was built, so any number
// of runs on any threads can share it. GraphBuilder makes it.
class GraphImage {
 public:
  // Takes the bytes of a whole image, and the kernels in the order of its kernel section.
  GraphImage(BigVector<std::byte> bytes, std::vector<const pto_kernel_info*> kernels);
  GraphImage(const GraphImage&) = delete;
  GraphImage& operator=(const GraphImage&) = delete;

  uint32_t task_count() const { return static_cast<uint32_t>(header().tasks.count - 1); }
  uint64_t edge_count() const { return header().successors.count; }
  bool has_multi_block_tasks() const { return has_multi_block_tasks_; }
  size_t bytes() const { return bytes_.size(); }
  // All of it; an image made of a copy means the same.
  absl::Span<const std::byte> data() const { return bytes_; }

  // One more than there are tasks: the last one only ends the successors.
  absl::Span<const ImageTask> tasks() const { return tasks_; }
  absl::Span<const uint32_t> successors(uint32_t task) const {
    const uint32_t begin = tasks_[task].first_successor;
    return successors_.subspan(begin, tasks_[task + 1].first_successor - begin);
  }
  // Tasks that depend on nothing.
  absl::Span<const uint32_t> roots() const { return roots_; }
  // Chips that the tasks use, rising.
  absl::Span<const uint32_t> chips() const { return chips_; }

  // Place of a chip in chips(), which has it.
  uint32_t place_of_chip(uint32_t chip) const { return place_of_chip_[chip]; }

  // Names and counts of what each task's kernel refers to.
  absl::Span<const ImageKernel> kernels() const { return Section<ImageKernel>(header().kernels); }
  // What runs have learnt of a task's kernel in this graph: whether it takes so long that it is
  // worth a thread's wake-up. Any thread may look and tell.
  enum class Pace : uint8_t { kUnknown, kShort, kLong };
  Pace pace(uint32_t task) const {
    return paces_[tasks_[task].kernel].load(std::memory_order_relaxed);
  }
  void SetPace(uint32_t task, Pace pace) const {
    std::atomic<Pace>& known = paces_[tasks_[task].kernel];
    // Seldom news, and then nobody else's cache line is touched.
    if (known.load(std::memory_order_relaxed) != pace) {
      known.store(pace, std::memory_order_relaxed);
    }
  }
  const pto_kernel_info& kernel(uint32_t task) const { return *kernels_[tasks_[task].kernel]; }
  absl::Span<const uint32_t> args(uint32_t task) const {
    return args_.subspan(tasks_[task].first_arg, kernel(task).argument_count);
  }
  absl::Span<const uint32_t> scalar_refs(uint32_t task) const {
    return scalar_refs_.subspan(tasks_[task].first_scalar, kernel(task).scalar_count);
  }
  absl::Span<const ImageTensor> tensors() const { return tensors_; }
  absl::Span<const Layout> layouts() const { return layouts_; }
  absl::Span<const ImageSlot> slots() const { return slots_; }
  // Index of the slot or the named scalar of that name, if there is one.
  absl::optional<uint32_t> FindSlot(absl::string_view name) const;
  absl::optional<uint32_t> FindScalar(absl::string_view name) const;
  // Names of the scalars that come first in scalar_values().
  absl::Span<const ImageScalar> scalar_names() const { return scalar_names_; }
  // Bits of all scalars, the named ones first.
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
  template <typename T>
  absl::Span<const T> Section(const ImageSection& section) const {
    return {reinterpret_cast<const T*>(bytes_.data() + section.begin), section.count};
  }

  const BigVector<std::byte> bytes_;
  const std::vector<const pto_kernel_info*> kernels_;
  absl::Span<const ImageTask> tasks_;
  absl::Span<const uint32_t> successors_, roots_, chips_, args_, scalar_refs_;
  absl::Span<const ImageTensor> tensors_;
  absl::Span<const Layout> layouts_;
  absl::Span<const ImageSlot> slots_;
  absl::Span<const ImageScalar> scalar_names_;
  absl::Span<const uint64_t> scalar_values_;
  absl::Span<const ImageText> task_names_;
  absl::Span<const char> text_;
  std::vector<uint32_t> place_of_chip_;
  const std::unique_ptr<std::atomic<Pace>[]> paces_;  // of each kernel
  // The keys are in `bytes_`.
  absl::flat_hash_map<absl::string_view, uint32_t> slot_by_name_;
  absl::flat_hash_map<absl::string_view, uint32_t> scalar_by_name_;
  bool has_multi_block_tasks_ = false;
};

}  // namespace pto

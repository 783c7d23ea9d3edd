#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/image.h"
#include "runtime/graph/image_writer.h"

namespace pto {

// The dependencies of a graph that is being built, task by task, and at the end the same the
// other way round: the successors of each task in a row.
class DependencyTable {
 public:
  // Adds the next task, which waits for these earlier ones, and returns how many there are: each
  // counts once, however often it is named.
  uint32_t AddTask(absl::Span<const uint32_t> before) {
    const size_t first = before_.size();
    before_.extend_uninitialized(before.size());
    uint32_t* const own = before_.data() + first;
    for (size_t i = 0; i < before.size(); ++i) own[i] = before[i];
    size_t count = before.size();
    if (count > 1) {
      count = RemoveRepeated(own, count);
      before_.resize(first + count);
    }
    for (size_t i = 0; i < count; ++i) ++successors_[own[i]];
    successors_.push_back(0);
    roots_ += count == 0 ? 1 : 0;
    return static_cast<uint32_t>(count);
  }

  // Of all tasks so far.
  uint64_t size() const { return before_.size(); }

  // Writes the sections of successors and roots, and where the successors of each of the writer's
  // tasks begin; these end with one more. Call once, at the end.
  void Write(ImageWriter& writer, ImageHeader& header);

 private:
  // Returns how many are left, in front.
  static size_t RemoveRepeated(uint32_t* tasks, size_t count);

  BigVector<uint32_t> before_;      // of all tasks, in order
  BigVector<uint32_t> successors_;  // how many each task has
  size_t roots_ = 0;                // tasks that wait for none
};

}  // namespace pto

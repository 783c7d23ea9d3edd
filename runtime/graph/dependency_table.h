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
    const auto task = static_cast<uint32_t>(tasks_.size());
    uint32_t* const own = before_.next(before.size());
    uint32_t count = 0;
    for (const uint32_t earlier : before) {
      Task& known = tasks_[earlier];
      if (known.last_successor == task) continue;
      known.last_successor = task;
      ++known.successors;
      own[count++] = earlier;
    }
    before_.keep(count);
    tasks_.push_back({});
    roots_ += count == 0 ? 1 : 0;
    return count;
  }

  // Of all tasks so far.
  uint64_t size() const { return before_.size(); }

  // Writes the sections of successors and roots, and where the successors of each of the writer's
  // tasks begin; these end with one more. Call once, at the end.
  void Write(ImageWriter& writer, ImageHeader& header);

 private:
  struct Task {
    uint32_t last_successor = 0;  // 0, which waits for nothing, means none
    uint32_t successors = 0;      // how many
  };

  BigVector<uint32_t> before_;  // of all tasks, in order
  BigVector<Task> tasks_;
  size_t roots_ = 0;  // tasks that wait for none
};

}  // namespace pto

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/image.h"
#include "runtime/graph/image_writer.h"

namespace pto::engine {

// The dependencies of a graph under construction. Write() inverts them: the successors of each task
// in a row.
class DependencyTable {
 public:
  // Adds the next task, which waits for the tasks in `before`. Returns the number of different
  // tasks in it.
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

  // The number of dependencies of all tasks so far.
  uint64_t size() const { return before_.size(); }

  // Writes the sections of successors and roots, and sets first_successor of the writer's tasks,
  // including the extra one at the end. Call once, at the end.
  void Write(ImageWriter& writer, ImageHeader& header);

 private:
  struct Task {
    uint32_t last_successor = 0;  // 0 means none: task 0 waits for nothing
    uint32_t successors = 0;      // number of successors
  };

  BigVector<uint32_t> before_;  // dependencies of all tasks, in task order
  BigVector<Task> tasks_;
  size_t roots_ = 0;  // number of tasks without dependencies
};

}  // namespace pto::engine

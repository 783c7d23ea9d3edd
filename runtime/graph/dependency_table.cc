#include "runtime/graph/dependency_table.h"

#include <utility>

namespace pto::engine {

void DependencyTable::Write(ImageWriter& writer, ImageHeader& header) {
  header.successors = writer.AddRoom<uint32_t>(before_.size());
  header.roots = writer.AddRoom<uint32_t>(roots_);
  auto* const rows = writer.records<uint32_t>(header.successors);
  auto* root = writer.records<uint32_t>(header.roots);
  ImageTask* const tasks = writer.tasks();
  const uint32_t* before = before_.begin();
  // The row of a task begins where the previous row ends. A task comes after all tasks that it
  // waits for, so their rows are already placed, and the task takes the next entry in each. From
  // here on `successors` is the position of that entry.
  uint32_t end = 0;
  const auto count = static_cast<uint32_t>(tasks_.size());
  for (uint32_t i = 0; i < count; ++i) {
    ImageTask& task = tasks[i];
    task.first_successor = end;
    end += std::exchange(tasks_[i].successors, end);
    if (task.dependencies == 0) *root++ = i;
    for (uint32_t d = 0; d < task.dependencies; ++d) rows[tasks_[*before++].successors++] = i;
  }
  tasks[count].first_successor = end;
}

}  // namespace pto::engine

#include "runtime/graph/dependency_table.h"

#include <utility>

namespace pto {

void DependencyTable::Write(ImageWriter& writer, ImageHeader& header) {
  header.successors = writer.AddRoom<uint32_t>(before_.size());
  header.roots = writer.AddRoom<uint32_t>(roots_);
  auto* const rows = writer.records<uint32_t>(header.successors);
  auto* root = writer.records<uint32_t>(header.roots);
  ImageTask* const tasks = writer.tasks();
  const uint32_t* before = before_.begin();
  // A task's row begins where that of the one before ends. Those that a task waits for have come
  // before it, so their rows are known, and it takes the next place in each. From then on
  // `successors` is that place.
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

}  // namespace pto

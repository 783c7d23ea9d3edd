#include "runtime/graph/dependency_table.h"

#include <algorithm>

namespace pto {
namespace {

// Up to so many it is quicker to compare all with all than to sort them.
constexpr size_t kFew = 8;

}  // namespace

size_t DependencyTable::RemoveRepeated(uint32_t* tasks, size_t count) {
  if (count > kFew) {
    std::sort(tasks, tasks + count);
    return static_cast<size_t>(std::unique(tasks, tasks + count) - tasks);
  }
  size_t kept = 1;
  for (size_t i = 1; i < count; ++i) {
    const uint32_t task = tasks[i];
    bool repeated = false;
    for (size_t j = 0; j < kept; ++j) repeated |= tasks[j] == task;
    tasks[kept] = task;
    kept += repeated ? 0 : 1;
  }
  return kept;
}

void DependencyTable::Write(ImageWriter& writer, ImageHeader& header) {
  header.successors = writer.AddRoom<uint32_t>(before_.size());
  header.roots = writer.AddRoom<uint32_t>(roots_);
  auto* const rows = writer.records<uint32_t>(header.successors);
  auto* root = writer.records<uint32_t>(header.roots);
  ImageTask* const tasks = writer.tasks();
  const uint32_t* before = before_.begin();
  // A task's row begins where that of the one before ends. Those that a task waits for have come
  // before it, so their rows are known, and it takes the next place in each.
  uint32_t* const next_place = successors_.data();
  uint32_t end = 0;
  const auto count = static_cast<uint32_t>(successors_.size());
  for (uint32_t i = 0; i < count; ++i) {
    ImageTask& task = tasks[i];
    task.first_successor = end;
    end += next_place[i];
    next_place[i] = task.first_successor;
    if (task.dependencies == 0) *root++ = i;
    for (uint32_t d = 0; d < task.dependencies; ++d) rows[next_place[*before++]++] = i;
  }
  tasks[count].first_successor = end;
}

}  // namespace pto

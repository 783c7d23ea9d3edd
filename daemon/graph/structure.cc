#include "daemon/graph/structure.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto {
namespace {

constexpr uint32_t kDefaultTasks = 10'000;
constexpr uint32_t kMaxTasks = 100'000;

// At most this much for a task's columns, beside its name and what waits for it, and for each
// task that waits.
constexpr uint64_t kTaskBytes = 5 + 3 + 5 + 5 + 1 + 5;
constexpr uint64_t kSuccessorBytes = 5;
constexpr uint64_t kMemberBytes = 3;

void AddTask(const GraphImage& image, uint32_t index, v1::GraphStructure* structure) {
  const ImageTask& task = image.tasks()[index];
  const ImageDetail* const detail = image.detail(index);
  structure->add_kernel(task.kernel);
  structure->add_name(std::string(image.task_name(index)));
  structure->add_chip(task.chip);
  structure->add_chip_count(detail == nullptr ? 1 : detail->member_count);
  if (detail != nullptr && detail->member_count > 1) {
    for (const uint32_t chip : image.members(*detail)) structure->add_member_chip(chip);
  }
  structure->add_block_num(task.block_num);
  structure->add_predicated((task.traits & kTaskPredicated) != 0);
  structure->add_next_count(static_cast<uint32_t>(image.successors(index).size()));
  for (const uint32_t next : image.successors(index)) structure->add_next_ahead(next - index);
}

// A column that says nothing is left out.
void DropPlainColumns(v1::GraphStructure* structure) {
  const auto all = [](const auto& column, const auto& plain) {
    return std::all_of(column.begin(), column.end(),
                       [&](const auto& value) { return value == plain; });
  };
  if (all(structure->name(), "")) structure->clear_name();
  if (all(structure->chip_count(), 1u)) structure->clear_chip_count();
  if (all(structure->block_num(), 1u)) structure->clear_block_num();
  if (all(structure->predicated(), false)) structure->clear_predicated();
}

}  // namespace

absl::Status DescribeStructure(const GraphImage& image, const v1::GetGraphRequest& request,
                               v1::GraphStructure* structure, uint64_t max_bytes) {
  if (request.first_task() > image.task_count()) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("the graph has ", image.task_count(), " tasks"))
        .At("first_task")
        .With("have", request.first_task())
        .With("want", image.task_count());
  }
  if (request.max_tasks() > kMaxTasks) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("at most ", kMaxTasks, " tasks come at once, not ",
                              request.max_tasks()))
        .At("max_tasks")
        .With("have", request.max_tasks())
        .With("want", kMaxTasks);
  }
  structure->set_first_task(request.first_task());
  for (const ImageKernel& kernel : image.kernels()) {
    structure->add_kernels(std::string(image.text(kernel.name)));
  }
  const uint64_t wanted = request.max_tasks() == 0 ? kDefaultTasks : request.max_tasks();
  const auto first = static_cast<uint32_t>(request.first_task());
  const auto end = static_cast<uint32_t>(std::min<uint64_t>(image.task_count(), first + wanted));
  uint64_t bytes = 0;
  for (uint32_t task = first; task < end; ++task) {
    const ImageDetail* const detail = image.detail(task);
    bytes += kTaskBytes + image.task_name(task).size() +
             kSuccessorBytes * image.successors(task).size() +
             (detail == nullptr ? 0 : kMemberBytes * detail->member_count);
    if (bytes > max_bytes && task > first) break;
    AddTask(image, task, structure);
  }
  DropPlainColumns(structure);
  return absl::OkStatus();
}

}  // namespace pto

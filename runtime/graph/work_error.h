#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/graph/task_input.h"
#include "runtime/graph/work_budget.h"

namespace pto::engine {

// The field of the task that names the tensor, for example `args[1]` or `members[0].args[2]`.
std::string FieldOf(const TaskInput& task, uint32_t tensor);

// Why the budget stopped the work: CLIENT_GONE, or GRAPH_TOO_LARGE (its time was up too) at the
// field of that task.
absl::Status WorkError(const WorkBudget& budget, uint32_t task, absl::string_view field);

}  // namespace pto::engine

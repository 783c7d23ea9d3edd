#include "runtime/graph/work_error.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/error.h"

namespace pto::engine {

std::string FieldOf(const TaskInput& task, uint32_t tensor) {
  const auto place = [tensor](absl::Span<const uint32_t> args) {
    size_t i = 0;
    while (i < args.size() && args[i] != tensor) ++i;
    return i;
  };
  if (const size_t i = place(task.args); i < task.args.size()) return absl::StrCat("args[", i, "]");
  for (size_t member = 0; member < task.members.size(); ++member) {
    const size_t i = place(task.members[member].args);
    if (i < task.members[member].args.size()) {
      return absl::StrCat("members[", member, "].args[", i, "]");
    }
  }
  return task.predicate.has_value() && task.predicate->tensor == tensor ? "predicate.tensor"
                                                                        : "args";
}

absl::Status WorkError(const WorkBudget& budget, uint32_t task, absl::string_view field) {
  if (budget.state() == WorkBudget::State::kCancelled) {
    return Error(reason::kClientGone,
                 "the client has gone, or its deadline has passed, before the graph was compiled");
  }
  if (budget.state() == WorkBudget::State::kLate) {
    const std::string limit = absl::FormatDuration(absl::Nanoseconds(budget.limit_ns()));
    return Error(reason::kGraphTooLarge, absl::StrCat("compiling tasks 0 to ", task,
                                                      " of the graph took longer than ", limit))
        .At(field)
        .With("task", task)
        .With("compile_timeout", limit)
        .Hint("submit smaller graphs, or let tasks share tensors");
  }
  return Error(reason::kGraphTooLarge,
               absl::StrCat("too many tensors of the graph overlap: finding the dependencies of "
                            "tasks 0 to ",
                            task, " took ", budget.spent(), " comparisons"))
      .At(field)
      .With("task", task)
      .With("comparisons", budget.spent())
      .Limit("max_argument_comparisons", WorkBudget::kPerArgument, 0, budget.per_argument())
      .Hint("let tasks share tensors, or use tensors of the same strides");
}

}  // namespace pto::engine

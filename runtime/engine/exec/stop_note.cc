#include "runtime/engine/exec/stop_note.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "kernels/domain_scalar.h"
#include "runtime/base/reason.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {
namespace {

// Whether a task has more places than one.
bool HasPlaces(const BlockTicket& ticket) {
  return ticket.phase_count > 1 || ticket.run->image().calls(ticket.task) > 1;
}

// Whether chips work together on it: who stops a run wants to know how far they were.
bool IsCollective(const BlockTicket& ticket) {
  const GraphImage& image = ticket.run->image();
  if (ticket.phase_count > 0 || TaskData::MemberCount(image, ticket.task) > 1) return true;
  const pto_kernel_info& kernel = image.kernel(ticket.task);
  return std::any_of(kernel.scalars, kernel.scalars + kernel.scalar_count,
                     [](const pto_scalar_info& scalar) { return scalar.type == kDomainScalar; });
}

bool HasPlace(const ErrorDetail& detail) {
  return std::any_of(detail.metadata.begin(), detail.metadata.end(),
                     [](const auto& pair) { return pair.first == "rank"; });
}

// The same error with more text, and with the ticket's place. One that tells of a place already
// stays as it is.
absl::Status WithPlace(const absl::Status& error, absl::string_view more,
                       const BlockTicket& ticket) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(error);
  if (!detail.has_value() || HasPlace(*detail)) return error;
  const Reason* const reason = FindReason(detail->reason);
  if (reason == nullptr) return error;
  Error with(*reason, absl::StrCat(error.message(), more));
  with.At(detail->field).Hint(detail->hint).Help(detail->help);
  for (const auto& [key, value] : detail->metadata) with.With(key, value);
  if (const absl::optional<Quota>& quota = detail->quota) {
    with.Limit(quota->name, quota->limit, quota->usage, quota->requested);
  }
  TaskData::AddPlace(ticket, &with);
  return with;
}

}  // namespace

void StopNote::Leave(BlockState& state, uint64_t began_ticks, absl::Status error) {
  const std::string said = state.has_rare() ? state.rare().error : "";
  Leave(*state.ticket, state.long_task, began_ticks, said, std::move(error));
}

void StopNote::Leave(const BlockTicket& ticket, LongTask* long_task, uint64_t began_ticks,
                     absl::string_view said, absl::Status error) {
  Run& run = *ticket.run;
  // A kernel that is to stop returns; it does not throw.
  if (ReasonOf(error) == reason::kKernelThrew.name) run.outcome().AddError(std::move(error));
  if (long_task != nullptr && long_task->late.load(std::memory_order_acquire)) {
    run.long_tasks().NoteLate(*long_task, ticket, began_ticks, said);
  }
  if (run.stopping() && IsCollective(ticket)) SayWhere(ticket, said);
}

void StopNote::LeaveNext(const BlockTicket& ticket, LongTask& long_task) {
  ticket.run->long_tasks().NoteLate(long_task, ticket, LateCall::kNotBegun, "");
}

void StopNote::SayWhere(const BlockTicket& ticket, absl::string_view said) {
  Run& run = *ticket.run;
  const std::string more = absl::StrCat("; ", TaskData::Subject(run, ticket.task), "was in ",
                                        TaskData::Place(ticket), said.empty() ? "" : ": ", said);
  run.outcome().SayWhere(
      [&](const absl::Status& error) -> absl::Status { return WithPlace(error, more, ticket); });
}

Error StopNote::TimeIsUp(const Run& run, uint32_t task, const LongTask& ended) {
  const std::string time = absl::FormatDuration(absl::Nanoseconds(ended.timeout_ns));
  std::string text = absl::StrCat("the task's time of ", time, " is up");
  const absl::optional<LateCall>& call = ended.late_call;
  if (call.has_value() && HasPlaces(call->ticket)) {
    absl::StrAppend(&text, " in ", TaskData::Place(call->ticket));
  }
  if (!ended.late_for.empty()) absl::StrAppend(&text, "; ", ended.late_for);
  if (call.has_value() && !call->said.empty()) absl::StrAppend(&text, "; ", call->said);
  if (!call.has_value()) {
    return TaskData::TaskError(reason::kTaskDeadline, run, task, text).With("timeout", time);
  }
  Error error(reason::kTaskDeadline, absl::StrCat(TaskData::Subject(run, task), text));
  TaskData::AddPlace(call->ticket, &error);
  return error.With("timeout", time);
}

}  // namespace pto::engine

#include "client/run.h"

#include <utility>

#include "client/internal/core.h"
#include "client/internal/event_reader.h"
#include "runtime/base/status_macros.h"

namespace pto {

Run::Run(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::SessionState> session,
         v1::Run snapshot)
    : core_(std::move(core)), session_(std::move(session)), snapshot_(std::move(snapshot)) {}

absl::StatusOr<v1::Run> Run::Wait(absl::Duration timeout) const {
  // No call is needed if the call that started the run already returned its final state.
  if (IsFinal(snapshot_.state())) return snapshot_;
  return core_->WaitRun(session_.get(), name(), core_->DeadlineOf(timeout));
}

absl::StatusOr<v1::Run> Run::Get(absl::Duration timeout) const {
  v1::GetRunRequest request;
  request.set_name(name());
  return core_->CallOnRun(*session_, "GetRun", &v1::RunService::Stub::PrepareAsyncGetRun, request,
                          core_->DeadlineOf(timeout));
}

absl::StatusOr<v1::Run> Run::Cancel(absl::string_view reason, absl::Duration timeout) const {
  v1::CancelRunRequest request;
  request.set_name(name());
  request.set_reason(std::string(reason));
  return core_->CallOn(*session_, "CancelRun", core_->transport().run,
                       &v1::RunService::Stub::PrepareAsyncCancelRun, request,
                       core_->DeadlineOf(timeout), internal::Retry::kOnce);
}

absl::StatusOr<v1::ExplainRunResponse> Run::Explain(uint32_t max_tasks,
                                                    absl::Duration timeout) const {
  v1::ExplainRunRequest request;
  request.set_name(name());
  request.set_max_tasks(max_tasks);
  return core_->CallOn(*session_, "ExplainRun", core_->transport().run,
                       &v1::RunService::Stub::PrepareAsyncExplainRun, request,
                       core_->DeadlineOf(timeout), internal::Retry::kOnce);
}

absl::StatusOr<EventStream> Run::Events() const {
  PTO_RETURN_IF_ERROR(session_->status());
  WatchOptions options;
  options.runs = {name()};
  options.until_run_ends = name();
  return EventStream(std::make_unique<internal::EventReader>(core_, session_, options));
}

}  // namespace pto

#include "client/internal/event_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/internal/duration_proto.h"
#include "client/internal/rpc_error.h"
#include "client/run_state.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::internal {
namespace {

using Call = ReaderCall<v1::EventBatch>;

constexpr absl::string_view kRpc = "WatchEvents";
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(10);
constexpr absl::Duration kLastBackoff = absl::Seconds(1);
constexpr absl::Duration kAskTimeout = absl::Seconds(1);

// Whether another call can continue where this one broke.
bool IsTransient(const absl::Status& error) {
  const std::string reason = ReasonOf(error);
  return reason == reason::kDaemonUnreachable.name || reason == reason::kNodeDraining.name;
}

}  // namespace

EventReader::EventReader(std::shared_ptr<Core> core, std::shared_ptr<SessionState> session,
                         const WatchOptions& options)
    : core_(std::move(core)),
      session_(std::move(session)),
      until_run_ends_(options.until_run_ends),
      through_sequence_(options.after_sequence),
      backoff_(kFirstBackoff) {
  request_.set_parent(session_->name());
  request_.set_after_sequence(options.after_sequence);
  request_.set_boot_id(options.boot_id.empty() ? session_->boot_id() : options.boot_id);
  for (const std::string& run : options.runs) request_.add_runs(run);
  if (options.max_linger != absl::ZeroDuration()) {
    ToProto(options.max_linger, *request_.mutable_max_linger());
  }
  if (options.progress_interval != absl::ZeroDuration()) {
    ToProto(options.progress_interval, *request_.mutable_progress_interval());
  }
}

EventReader::~EventReader() { CloseCall(); }

void EventReader::CloseCall() { core_->transport().event.connection.Release(std::move(call_)); }

absl::StatusOr<absl::optional<v1::EventBatch>> EventReader::Next(const Deadline& deadline) {
  {
    MutexLock lock(mutex_);
    while (turn_taken_) {
      if (deadline.Passed()) return TimeoutError(kRpc, core_->address(), deadline.timeout());
      const absl::Duration wait = std::min(deadline.Remaining(), absl::Hours(1));
      turn_free_.WaitFor(mutex_, absl::ToChronoNanoseconds(wait));
    }
    turn_taken_ = true;
  }
  absl::StatusOr<absl::optional<v1::EventBatch>> next = Read(deadline);
  MutexLock lock(mutex_);
  if (next.ok() && next->has_value()) through_sequence_ = (*next)->through_sequence();
  turn_taken_ = false;
  turn_free_.NotifyOne();
  return next;
}

uint64_t EventReader::through_sequence() const {
  MutexLock lock(mutex_);
  return through_sequence_;
}

absl::StatusOr<absl::optional<v1::EventBatch>> EventReader::Read(const Deadline& deadline) {
  // Set when the first call of this Next breaks.
  absl::optional<Deadline> give_up;
  while (true) {
    if (end_.has_value()) {
      if (!end_->ok()) return *end_;
      return absl::optional<v1::EventBatch>();
    }
    if (call_ == nullptr) {
      PTO_RETURN_IF_ERROR(session_->status());
      const auto& wire = core_->transport().event;
      call_ = std::make_unique<Call>(*wire.stub, &v1::EventService::Stub::PrepareAsyncWatchEvents,
                                     request_, Deadline::Never());
    }
    v1::EventBatch batch;
    switch (call_->Next(deadline, batch)) {
      case Call::Result::kMessage:
        Note(batch, deadline);
        give_up.reset();
        if (!batch.events().empty()) return absl::make_optional(std::move(batch));
        break;
      case Call::Result::kTimeout:
        return TimeoutError(kRpc, core_->address(), deadline.timeout());
      case Call::Result::kEnded: {
        const absl::Status error =
            RpcError(call_->status(), kRpc, core_->address(), deadline.timeout());
        CloseCall();
        if (error.ok()) {
          end_ = absl::OkStatus();
          break;
        }
        if (!give_up.has_value()) give_up = deadline.AtMost(core_->options().connect_timeout);
        PTO_RETURN_IF_ERROR(Recover(error, deadline, *give_up));
        break;
      }
    }
  }
}

void EventReader::Note(const v1::EventBatch& batch, const Deadline& deadline) {
  request_.set_after_sequence(batch.through_sequence());
  backoff_ = kFirstBackoff;
  if (until_run_ends_.empty()) return;
  for (const v1::Event& event : batch.events()) {
    if (event.has_run() && event.run().name() == until_run_ends_ && IsFinal(event.run().state())) {
      EndWell();
      return;
    }
    must_ask_ |= event.has_dropped() && !ended_through_.has_value();
  }
  if (must_ask_) AskForRun(deadline);
  // Events that the stream still holds come first.
  if (ended_through_.has_value() && batch.through_sequence() >= *ended_through_) EndWell();
}

void EventReader::AskForRun(const Deadline& deadline) {
  v1::GetRunRequest request;
  request.set_name(until_run_ends_);
  const absl::StatusOr<v1::Run> run =
      core_->Call("GetRun", core_->transport().run, &v1::RunService::Stub::PrepareAsyncGetRun,
                  request, deadline.AtMost(kAskTimeout), Retry::kOnce);
  if (run.ok()) {
    must_ask_ = false;
    if (IsFinal(run->state())) ended_through_ = run->as_of_sequence();
  } else if (ReasonOf(run.status()) == reason::kRunExpired.name) {
    // It ended so long ago that the daemon does not know when.
    must_ask_ = false;
    ended_through_ = 0;
  }
  // Otherwise the next batch, which arrives even if nothing happens, triggers another check.
}

void EventReader::EndWell() {
  end_ = absl::OkStatus();
  CloseCall();
}

absl::Status EventReader::Recover(const absl::Status& error, const Deadline& deadline,
                                  const Deadline& give_up) {
  const absl::Status meaning = core_->Examine(*session_, error, deadline);
  if (!IsTransient(meaning)) {
    end_ = meaning;
    return meaning;
  }
  if (give_up.Passed()) return meaning;
  absl::SleepFor(std::min(backoff_, give_up.Remaining()));
  backoff_ = std::min(backoff_ * 2, kLastBackoff);
  return absl::OkStatus();
}

}  // namespace pto::internal

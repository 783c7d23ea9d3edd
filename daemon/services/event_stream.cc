#include "daemon/services/event_stream.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/names/names.h"
#include "daemon/wire/convert.h"
#include "daemon/wire/request.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// Large enough to amortise the cost of a message; about 50 KiB.
constexpr uint64_t kMaxBatchEvents = 4096;
// Errors of runs can be long, and by default a client accepts at most 4 MiB.
constexpr size_t kMaxBatchBytes = size_t{1} << 20;
// When the client may not hold more, batches are small but still sent: it needs them to go on.
constexpr uint64_t kSmallBatchEvents = 64;
constexpr size_t kSmallBatchBytes = size_t{8} << 10;
// What most batches take.
constexpr uint64_t kUsualBatchBytes = uint64_t{64} << 10;
// Of gRPC, around a message.
constexpr uint64_t kObjectBytes = 1024;

// The size of an event that can be large; task events are small.
size_t LargeBytes(const v1::Event& event) {
  return event.has_run() || event.has_errors() ? event.ByteSizeLong() : 0;
}

}  // namespace

EventStream* EventStream::Make(Node& node, Gate gate, StopList& streams,
                               const v1::WatchEventsRequest& request) {
  std::shared_ptr<EventStream> stream(new EventStream(node, gate, streams, request));
  stream->self_ = stream;
  return stream.get();
}

absl::Status EventStream::Begin() {
  PTO_ASSIGN_OR_RETURN(const auth::Caller caller, gate_.Admit(*this, &request_));
  stay_ = gate_.Stay(*this, caller);
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request_.parent(), "parent"));
  for (int i = 0; i < request_.runs_size(); ++i) {
    const std::string path = absl::StrCat("runs[", i, "]");
    PTO_ASSIGN_OR_RETURN(const names::Child child,
                         names::ParseChild(request_.runs(i), "runs", path));
    if (child.session != id) {
      return Error(reason::kSessionMismatch,
                   absl::StrCat(request_.runs(i), " is not a run of ", request_.parent()))
          .At(path);
    }
    runs_.insert(child.id);
  }
  PTO_ASSIGN_OR_RETURN(
      absl::Duration linger,
      ParseDuration(request_.max_linger(), "max_linger", absl::ZeroDuration(), absl::Seconds(10)));
  if (linger == absl::ZeroDuration()) linger = absl::Milliseconds(2);
  linger_ns_ = absl::ToInt64Nanoseconds(linger);
  absl::Duration progress = absl::Seconds(10);
  if (request_.has_progress_interval() &&
      (request_.progress_interval().seconds() != 0 || request_.progress_interval().nanos() != 0)) {
    PTO_ASSIGN_OR_RETURN(progress, ParseDuration(request_.progress_interval(), "progress_interval",
                                                 absl::Milliseconds(100), absl::Hours(24)));
  }
  progress_ns_ = absl::ToInt64Nanoseconds(progress);
  if (!request_.boot_id().empty() && request_.boot_id() != node_.boot_id()) {
    return Error(reason::kBootIdChanged, "the daemon was restarted since these events")
        .At("boot_id")
        .With("have", node_.boot_id())
        .With("want", request_.boot_id().substr(0, 64));
  }
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(*caller, id, auth::Right::kLook));
  const uint64_t last = session->log().last_sequence();
  if (request_.after_sequence() > last) {
    return Error(reason::kSequenceInFuture, absl::StrCat("event ", request_.after_sequence(),
                                                         " is in the future; the newest is ", last))
        .At("after_sequence")
        .With("have", last)
        .With("want", request_.after_sequence());
  }
  session_ = session;
  if (session->owner() == caller->name) hold_ = SessionHold(session);
  return absl::OkStatus();
}

void EventStream::OnStart() {
  const absl::Status status = Begin();
  if (!status.ok()) {
    MutexLock lock(mutex_);
    FinishLocked(status);
    return;
  }
  {
    MutexLock lock(mutex_);
    charge_ = HostCharge(session_->memory());
    cursor_ = request_.after_sequence();
    through_.store(cursor_, std::memory_order_relaxed);
    last_sent_ns_ = node_.clock().NowNanos();
  }
  session_->log().AddWatcher(shared_from_this());
  stop_id_ = streams_.Add([weak = weak_from_this()] {
    if (const std::shared_ptr<EventStream> stream = weak.lock()) {
      {
        MutexLock lock(stream->mutex_);
        stream->stopping_ = true;
      }
      stream->Pump(false);
    }
  });
  Pump(false);
  ScheduleProgress();
}

bool EventStream::Wanted(const LogEntry& entry) const {
  if (runs_.empty()) return true;
  if (const auto* run = std::get_if<RunEvent>(&entry.event)) return runs_.contains(run->run->id);
  if (const auto* tasks = std::get_if<TaskBlock>(&entry.event)) {
    return runs_.contains(tasks->run->id);
  }
  if (const auto* errors = std::get_if<RunErrors>(&entry.event)) {
    return runs_.contains(errors->run->id);
  }
  if (const auto* stall = std::get_if<RunStall>(&entry.event)) {
    return runs_.contains(stall->run->id);
  }
  return true;
}

void EventStream::Pump(bool show_progress) {
  session_->DrainRuns();
  MutexLock lock(mutex_);
  if (!Idle()) return;
  // Read before the log: if it has ended, everything in it is seen below.
  const bool log_ended = session_->log().ended();
  // Not a member: a client that does not read would hold it beside gRPC's copy.
  v1::EventBatch batch;
  Fill(&batch);
  if (batch.events().empty() && !show_progress) {
    if (cursor_ < session_->log().last_sequence())
      return;  // it has just grown, and will call again
    if (log_ended) {
      FinishLocked(absl::OkStatus());
    } else if (stopping_) {
      FinishLocked(Error(reason::kNodeDraining, "the daemon stops"));
    }
    return;
  }
  batch.set_boot_id(node_.boot_id());
  batch.set_through_sequence(cursor_);
  charge_.ForceResize(batch.ByteSizeLong() + kObjectBytes);
  SetWriting(true);
  last_sent_ns_ = node_.clock().NowNanos();
  StartWrite(&batch);
}

void EventStream::Fill(v1::EventBatch* batch) {
  const bool room = charge_.TryResize(kUsualBatchBytes);
  const uint64_t max_events = room ? kMaxBatchEvents : kSmallBatchEvents;
  const size_t max_bytes = room ? kMaxBatchBytes : kSmallBatchBytes;
  // Skips a long range that the filter excludes here, not in many turns.
  while (batch->events().empty()) {
    const std::vector<LogEntry> entries = session_->log().Read(cursor_, max_events);
    if (entries.empty()) break;
    size_t bytes = 0;
    for (const LogEntry& entry : entries) {
      cursor_ = entry.last_sequence();
      if (!Wanted(entry)) continue;
      v1::Event* const event = batch->add_events();
      ToProto(entry, *session_, node_.boot_id(), event);
      bytes += LargeBytes(*event);
      if (bytes >= max_bytes) break;
    }
    through_.store(cursor_, std::memory_order_relaxed);
  }
  if (batch->events().empty()) charge_.ForceResize(0);
}

void EventStream::OnWriteDone(bool ok) {
  SetWriting(false);
  if (!ok) {
    MutexLock lock(mutex_);
    FinishLocked(Error(reason::kClientGone, "the client has gone"));
    return;
  }
  Pump(false);
}

bool EventStream::Idle() const {
  MutexLock lock(signal_mutex_);
  return !writing_ && !finished_;
}

void EventStream::SetWriting(bool writing) {
  MutexLock lock(signal_mutex_);
  writing_ = writing;
}

void EventStream::OnEvents(bool urgent) {
  MutexLock lock(signal_mutex_);
  // After a batch in flight there is another check anyway.
  if (writing_ || finished_) return;
  const int64_t now = node_.clock().NowNanos();
  PumpAt(urgent ? now : now + linger_ns_);
}

void EventStream::PumpAt(int64_t at_ns) {
  if (pump_at_ns_ != 0 && pump_at_ns_ <= at_ns) return;
  pump_at_ns_ = at_ns;
  node_.event_timers().Schedule(at_ns, [weak = weak_from_this()] {
    const std::shared_ptr<EventStream> stream = weak.lock();
    if (stream == nullptr) return;
    {
      MutexLock lock(stream->signal_mutex_);
      stream->pump_at_ns_ = 0;
    }
    stream->Pump(false);
  });
}

void EventStream::ScheduleProgress() {
  int64_t at = 0;
  {
    MutexLock lock(mutex_);
    {
      MutexLock signal_lock(signal_mutex_);
      if (finished_) return;
    }
    // A batch that is stuck must not cause a busy loop.
    at = std::max(last_sent_ns_, node_.clock().NowNanos() - progress_ns_ / 2) + progress_ns_;
  }
  node_.event_timers().Schedule(at, [weak = weak_from_this()] {
    const std::shared_ptr<EventStream> stream = weak.lock();
    if (stream == nullptr) return;
    bool due = false;
    {
      MutexLock lock(stream->mutex_);
      due = stream->node_.clock().NowNanos() - stream->last_sent_ns_ >= stream->progress_ns_;
    }
    if (due) stream->Pump(true);
    stream->ScheduleProgress();
  });
}

void EventStream::FinishLocked(const absl::Status& status) {
  {
    MutexLock lock(signal_mutex_);
    if (finished_) return;
    finished_ = true;
  }
  Finish(status);
}

void EventStream::OnCancel() {
  MutexLock lock(mutex_);
  FinishLocked(Error(reason::kClientGone, "the client has gone"));
}

void EventStream::OnDone() {
  stay_.reset();
  streams_.Remove(stop_id_);
  if (session_ != nullptr) {
    session_->log().RemoveWatcher(this);
  }
  // Not left to the destructor, because the object may live a moment longer.
  hold_.Drop();
  const std::shared_ptr<EventStream> last = std::move(self_);
}

}  // namespace pto::daemon

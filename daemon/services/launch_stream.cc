#include "daemon/services/launch_stream.h"

#include <algorithm>
#include <utility>

#include "daemon/metrics/refusals.h"
#include "daemon/services/run_request.h"
#include "daemon/wire/convert.h"
#include "proto/status/status_proto.h"
#include "runtime/base/error.h"

namespace pto::daemon {
namespace {

// A client that sends launches and does not read completions is read no further than this.
constexpr uint64_t kMaxUnanswered = 8192;

}  // namespace

LaunchStream* LaunchStream::Make(Node& node, Gate gate, rpc::Server& server, StopList& streams) {
  std::shared_ptr<LaunchStream> stream(new LaunchStream(node, gate, server, streams));
  stream->self_ = stream;
  return stream.get();
}

void LaunchStream::OnStart() {
  const absl::StatusOr<auth::Caller> caller = gate_.Admit(*this);
  if (!caller.ok()) {
    MutexLock lock(mutex_);
    finished_ = true;
    Finish(caller.status());
    return;
  }
  caller_ = *caller;
  stay_ = gate_.Stay(*this, caller_);
  stop_id_ = streams_.Add([weak = weak_from_this()] {
    if (const std::shared_ptr<LaunchStream> stream = weak.lock()) {
      MutexLock lock(stream->mutex_);
      stream->stopping_ = true;
      stream->Advance();
    }
  });
  MutexLock lock(mutex_);
  Advance();
}

void LaunchStream::OnReadDone(bool ok) {
  {
    MutexLock lock(mutex_);
    if (!ok || finished_) {
      reading_ = false;
      reads_done_ = !ok;
      Advance();
      return;
    }
    ++in_flight_;
  }
  rhythm_.Asked(node_.clock().NowNanos());
  LaunchOne();
  // Only now: a completion of another run must not have the next launch read over this one.
  MutexLock lock(mutex_);
  reading_ = false;
  Advance();
}

void LaunchStream::LaunchOne() {
  const uint64_t tag = request_.tag();
  if (launches_++ == 0) first_.mutable_launch()->set_graph(request_.launch().graph());
  const auto refuse = [this, tag](const absl::Status& error) {
    ++refused_;
    metrics::Refusals::InStreams().Count(error);
    Complete([&](v1::LaunchCompletion* completion) {
      completion->set_tag(tag);
      *completion->mutable_error() = StatusToProto(error);
    });
  };
  if (!request_.has_launch()) {
    refuse(Error(reason::kFieldInvalid, "there is nothing to launch").At("launch"));
    return;
  }
  if (request_.launch().has_wait()) request_.mutable_launch()->clear_wait();
  engine::Completions completions;
  const absl::StatusOr<std::shared_ptr<RunEntry>> entry =
      Launch(node_, *caller_, request_.launch(), [this] { return gone(); }, &target_, completions);
  if (!entry.ok()) {
    refuse(PrefixField(entry.status(), "launch."));
    return;
  }
  // A run of a former boot has none.
  if (target_.graph != nullptr) Hold(target_.session);
  if ((*entry)->recorded() && !completions.empty()) {
    const RunStatus status = (*entry)->EndStatus();
    Complete([&](v1::LaunchCompletion* completion) { ToProto(status, tag, completion); });
    // After the answer is on its way: events and successors are not what the client waits for.
    completions.Drain();
    AwaitNext(node_, server_, rhythm_);
    return;
  }
  (*entry)->AddWaiter([stream = shared_from_this(), tag](const RunStatus& status) {
    stream->Complete([&](v1::LaunchCompletion* completion) { ToProto(status, tag, completion); });
  });
}

void LaunchStream::Hold(const std::shared_ptr<Session>& session) {
  if (!holds_.empty() && holds_.back().session() == session) return;
  // A stream rarely has more than one, and none that has ended is kept.
  holds_.erase(std::remove_if(holds_.begin(), holds_.end(),
                              [&](const SessionHold& hold) {
                                return hold.session() == session || hold->ended();
                              }),
               holds_.end());
  holds_.emplace_back(session);
}

template <typename Fill>
void LaunchStream::Complete(Fill fill) {
  MutexLock lock(mutex_);
  --in_flight_;
  if (finished_) return;
  if (writing_) {
    fill(&completions_.emplace_back());
    return;
  }
  writing_message_.Clear();
  fill(&writing_message_);
  writing_ = true;
  StartWrite(&writing_message_);
  Advance();
}

void LaunchStream::Advance() {
  if (finished_) return;
  if (!writing_ && !completions_.empty()) {
    writing_message_ = std::move(completions_.front());
    completions_.pop_front();
    writing_ = true;
    StartWrite(&writing_message_);
  }
  const bool all_sent = !writing_ && completions_.empty() && in_flight_ == 0;
  if (all_sent && (reads_done_ || stopping_)) {
    finished_ = true;
    Finish(reads_done_ ? absl::OkStatus()
                       : absl::Status(Error(reason::kNodeDraining, "the daemon stops")));
    return;
  }
  if (!reading_ && !reads_done_ && !stopping_ &&
      in_flight_ + completions_.size() < kMaxUnanswered) {
    reading_ = true;
    StartRead(&request_);
  }
}

void LaunchStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  writing_ = false;
  if (!ok && !finished_) {
    finished_ = true;
    Finish(Error(reason::kClientGone, "the client has gone"));
  }
  Advance();
}

void LaunchStream::OnCancel() {
  MutexLock lock(mutex_);
  if (finished_) return;
  finished_ = true;
  Finish(Error(reason::kClientGone, "the client has gone"));
}

void LaunchStream::OnDone() {
  stay_.reset();
  streams_.Remove(stop_id_);
  // One line for all launches: a line for each would cost more than the launch.
  if (caller_ != nullptr) {
    gate_.Note(*this, caller_, &first_, absl::OkStatus(), launches_, refused_);
  }
  holds_.clear();
  const std::shared_ptr<LaunchStream> last = std::move(self_);
}

}  // namespace pto::daemon

#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/node/node.h"
#include "daemon/rpc/unary.h"
#include "daemon/run/run_entry.h"
#include "daemon/session/session_hold.h"
#include "daemon/wire/convert.h"
#include "pto/v1/run.grpc.pb.h"

namespace pto::daemon {

// A call that returns a run: when the run has ended, after the timeout or when the client has gone.
// Holds the run's session until then, if the client owns it. Owned by the run's waiter and by a
// timer; the first of them answers.
template <typename Request>
class RunWait final : public std::enable_shared_from_this<RunWait<Request>> {
 public:
  using Call = rpc::UnaryCallPtr<Request, v1::Run>;

  // `hold`: whether the client owns the session, which then lives as long as the call.
  RunWait(TimerQueue& timers, Call call, std::shared_ptr<RunEntry> entry, bool hold)
      : timers_(timers),
        call_(std::move(call)),
        entry_(std::move(entry)),
        hold_(hold ? entry_->owner() : nullptr) {}

  // Starts the wait.
  void Begin(int64_t until_ns) {
    // Copied, so that this object lives until the end of this function.
    const std::shared_ptr<RunWait> self = this->shared_from_this();
    call_->OnCancelled([weak = this->weak_from_this()] {
      if (const std::shared_ptr<RunWait> wait = weak.lock()) wait->GiveUp();
    });
    // Calls of other sessions are answered in time, however many calls of one session wait.
    timer_.store(timers_.Schedule(
                     until_ns, [self] { self->GiveUp(); }, entry_->owner().get()),
                 std::memory_order_release);
    const uint64_t waiter = entry_->AddWaiter([self](const RunStatus& status) {
      self->timers_.Cancel(self->timer_.load(std::memory_order_acquire));
      self->Answer(status);
    });
    // Sequentially consistent, like the counterpart in GiveUp: one of the two sees the other, so
    // nothing is left that keeps the call alive until the run ends.
    waiter_.store(waiter, std::memory_order_seq_cst);
    if (gave_up_.load(std::memory_order_seq_cst)) LetGo();
  }

 private:
  // The timeout has passed or the client has gone: answers with the run's current state.
  void GiveUp() {
    gave_up_.store(true, std::memory_order_seq_cst);
    LetGo();
    Answer(entry_->Status());
  }

  // Removes the waiter and the timer.
  void LetGo() {
    const uint64_t waiter = waiter_.load(std::memory_order_seq_cst);
    if (waiter != 0) entry_->RemoveWaiter(waiter);
    timers_.Cancel(timer_.load(std::memory_order_acquire));
  }

  void Answer(const RunStatus& status) {
    if (answered_.exchange(true, std::memory_order_acq_rel)) return;
    // Before the client gets the answer: the lease of the session restarts here.
    hold_.Drop();
    ToProto(status, call_->response());
    call_->Finish(absl::OkStatus());
  }

  TimerQueue& timers_;
  Call call_;
  const std::shared_ptr<RunEntry> entry_;
  Hold<RunOwner> hold_;  // until the answer
  std::atomic<TimerQueue::Id> timer_{0};
  std::atomic<uint64_t> waiter_{0};
  std::atomic<bool> gave_up_{false};
  std::atomic<bool> answered_{false};
};

// Answers `call`, which was made by LongUnary, with the run when it has ended, or after `wait` at
// the latest.
template <typename Request>
void AnswerWithRun(Node& node, rpc::UnaryCallPtr<Request, v1::Run> call,
                   const std::shared_ptr<RunEntry>& entry, absl::Duration wait, bool hold = true) {
  if (wait == absl::ZeroDuration() || entry->ended()) {
    ToProto(entry->Status(), call->response());
    call->Finish(absl::OkStatus());
    return;
  }
  // Not beyond the client's deadline.
  wait = std::min(wait, absl::FromChrono(call->context().deadline()) - absl::Now());
  std::make_shared<RunWait<Request>>(node.timers(), std::move(call), entry, hold)
      ->Begin(node.clock().NowNanos() + absl::ToInt64Nanoseconds(wait));
}

}  // namespace pto::daemon

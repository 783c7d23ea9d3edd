#include "runtime/engine/exec/lane_waiter.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/engine/exec/post_calls.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {

LaneWaiter::LaneWaiter(Services& services, PostSlot& slot, const LaneAnswer& answer,
                       const SignalWord& signal, pto_compare compare, int64_t value,
                       std::shared_ptr<AsyncCopy> copy)
    : TaskWaiter(services, slot.ticket, signal, compare, value, std::move(copy)),
      slot_(slot),
      answer_(answer) {}

void LaneWaiter::Begin(Services& services, PostSlot& slot, const LaneAnswer& answer,
                       const SignalWord& signal, pto_compare compare, int64_t value,
                       std::shared_ptr<AsyncCopy> copy, int64_t timeout_ns) {
  (new LaneWaiter(services, slot, answer, signal, compare, value, std::move(copy)))
      ->Start(timeout_ns);
}

void LaneWaiter::Begin(Services& services, PostSlot& slot, const LaneAnswer& answer,
                       Barrier& barrier, int64_t meeting) {
  auto* const waiter =
      new LaneWaiter(services, slot, answer, barrier.signal(), PTO_GE, meeting, nullptr);
  waiter->barrier_ = &barrier;
  waiter->meeting_ = meeting;
  waiter->Start(0);
}

void LaneWaiter::Start(int64_t timeout_ns) {
  ShowWait(CoreView::kWaits);
  if (!TaskWaiter::Begin(timeout_ns, slot_.long_task)) OnDone(WaitEnd::kHolds);
}

bool LaneWaiter::OnBegin() { return slot_.port->table().BeginWait(slot_, *this); }

void LaneWaiter::ShowWait(uint32_t wait) {
  const ReadyQueue& queue = services_.scheduler().queue(ticket_.chip);
  queue.own_view(ticket_.kind == PTO_MIX ? queue.ClusterOf(ticket_.core) : ticket_.core)
      .wait.store(wait, std::memory_order_relaxed);
}

void LaneWaiter::OnDone(WaitEnd end) {
  slot_.port->table().EndWait(slot_, services_.clock().NowNanos());
  ShowWait(CoreView::kPosted);
  Finish(end);
  PostSlot& slot = slot_;
  const LaneAnswer answer = std::move(answer_);
  delete this;
  Answer(slot, answer);
}

void LaneWaiter::Finish(WaitEnd end) {
  if (end == WaitEnd::kHolds) {
    if (barrier_ == nullptr || barrier_->Met(meeting_)) return;
    answer_.result = PTO_BROKEN;
    answer_.text = "a block of the task has ended before the barrier";
    return;
  }
  answer_.result = end == WaitEnd::kTimedOut ? PTO_TIMED_OUT : PTO_CANCELLED;
  answer_.text = Describe();
  if (end == WaitEnd::kTimedOut) {
    PostCalls::Of(slot_).failure = barrier_ == nullptr ? TimedOut() : BarrierTimedOut();
  }
  // The others wait for this one, which gives up.
  if (barrier_ != nullptr) barrier_->Break(services_.waits());
}

absl::Status LaneWaiter::BarrierTimedOut() const {
  return TaskData::BlockError(
      reason::kWaitTimeout, ticket_, "waited too long",
      absl::StrCat(barrier_->arrived(), " of ", barrier_->expected(), " came to the barrier"));
}

void LaneWaiter::Answer(PostSlot& slot, const LaneAnswer& answer) {
  if (answer.result != PTO_OK) {
    PostCalls& calls = PostCalls::Of(slot);
    calls.refused = answer.result;
    calls.why = answer.text;
  }
  // Stays until the lane has the answer.
  std::shared_ptr<LanePort> port = slot.port->shared_from_this();
  NewsList ended;
  port->table().EndCall(slot, &ended);
  // From here on the lane may end the post and make the next call.
  if (ended.count > 0) {
    port->Push(ended);
  } else {
    LanePort::Answer(std::move(port), answer);
  }
}

}  // namespace pto::engine

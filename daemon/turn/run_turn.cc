#include "daemon/turn/run_turn.h"

#include <utility>

namespace pto::daemon {
namespace {

void Link(ActiveAccess& ring, ActiveAccess& access) {
  access.previous = ring.previous;
  access.next = &ring;
  ring.previous->next = &access;
  ring.previous = &access;
}

void Unlink(ActiveAccess& access) {
  if (access.previous == nullptr) return;
  access.previous->next = access.next;
  access.next->previous = access.previous;
  access.previous = access.next = nullptr;
}

}  // namespace

BufferQueue::BufferQueue() {
  for (ActiveAccess* ring : {&reads_, &writes_}) ring->previous = ring->next = ring;
}

void RunTurn::Enter(const std::shared_ptr<RunTurn>& turn,
                    std::shared_ptr<const RunAccesses> accesses) {
  if (accesses == nullptr || accesses->empty()) return;
  turn->active_.resize(accesses->size());
  for (size_t i = 0; i < accesses->size(); ++i) {
    const BufferAccess& access = (*accesses)[i];
    BufferQueue& queue = *access.queue;
    WaitForOverlapping(turn, queue.writes_, access);
    if (access.writes) WaitForOverlapping(turn, queue.reads_, access);
    turn->active_[i].turn = turn.get();
    turn->active_[i].bytes = access.bytes;
    Link(access.writes ? queue.writes_ : queue.reads_, turn->active_[i]);
  }
  turn->accesses_ = std::move(accesses);
}

void RunTurn::WaitForOverlapping(const std::shared_ptr<RunTurn>& turn, ActiveAccess& ring,
                                 const BufferAccess& access) {
  for (ActiveAccess* other = ring.next; other != &ring;) {
    ActiveAccess* const next = other->next;
    const bool waits = access.exclusive ? other->turn != turn.get() : turn->WaitsFor(*other->turn);
    if (waits && other->bytes.Overlaps(access.bytes)) {
      WaitFor(turn, *other->turn);
      if (access.writes && access.bytes.Covers(other->bytes)) Unlink(*other);
    }
    other = next;
  }
}

void RunTurn::WaitFor(const std::shared_ptr<RunTurn>& turn, RunTurn& before) {
  // Until the other one passes, it keeps the turns behind it alive.
  if (before.last_behind_ == turn.get()) return;
  before.last_behind_ = turn.get();
  SpinLockHolder lock(before.lock_);
  if (before.passed_) return;
  turn->waits_.fetch_add(1, std::memory_order_relaxed);
  if (!turn->WaitsFor(before)) {
    turn->shown_part_before_.store(before.shown_part_, std::memory_order_relaxed);
  } else {
    turn->shown_before_[turn->before_count_++ % kShownBefore].store(before.shown_number_,
                                                                    std::memory_order_relaxed);
  }
  before.behind_.push_back(turn);
}

bool RunTurn::Leave() {
  if (!came_.load(std::memory_order_acquire)) {
    left_early_ = true;
    return false;
  }
  for (ActiveAccess& access : active_) Unlink(access);
  active_.clear();
  accesses_.reset();
  return true;
}

bool RunTurn::Arrive() {
  if (waits_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  came_.store(true, std::memory_order_release);
  return true;
}

void RunTurn::PassWhenBoth(engine::Completions& completions) {
  if (left_until_passed_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::vector<std::shared_ptr<RunTurn>> behind;
  {
    SpinLockHolder lock(lock_);
    passed_ = true;
    behind.swap(behind_);
  }
  if (left_early_) OnPassedLate();
  for (std::shared_ptr<RunTurn>& owned : behind) {
    RunTurn& turn = *owned;
    if (turn.waits_.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    turn.came_.store(true, std::memory_order_release);
    turn.self_ = std::move(owned);
    completions.Add(engine::CompletionStep::kSuccessors, turn);
  }
}

void RunTurn::Complete(engine::CompletionStep, engine::Completions& completions) {
  const std::shared_ptr<RunTurn> self = std::move(self_);
  OnTurn(completions);
  PassWhenBoth(completions);
}

}  // namespace pto::daemon

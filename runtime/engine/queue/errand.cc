#include "runtime/engine/queue/errand.h"

#include "runtime/engine/run/run.h"

namespace pto::engine {

ErrandShare& ErrandQueue::ShareOf(const Account* account) {
  if (last_share_ != nullptr && last_share_->account == account) return *last_share_;
  std::unique_ptr<ErrandShare>& share = shares_[account];
  if (share == nullptr) {
    share = std::make_unique<ErrandShare>();
    share->account = account;
  }
  last_share_ = share.get();
  return *share;
}

void ErrandQueue::Push(Errand& errand) {
  ErrandFlow& flow = errand.run_->errands();
  {
    SpinLockHolder lock(lock_);
    if (flow.first == nullptr) {
      ErrandShare& share = ShareOf(errand.run_->account().get());
      if (share.flows.empty()) ring_.Add(share);
      share.flows.Add(flow);
      flow.share = &share;
    }
    errand.previous_ = flow.last;
    errand.next_ = nullptr;
    (flow.last != nullptr ? flow.last->next_ : flow.first) = &errand;
    flow.last = &errand;
    errand.queued_ = true;
    size_.fetch_add(1, std::memory_order_release);
  }
  parking_.Wake(1);
}

void ErrandQueue::Unlink(Errand& errand) {
  ErrandFlow& flow = errand.run_->errands();
  (errand.previous_ != nullptr ? errand.previous_->next_ : flow.first) = errand.next_;
  (errand.next_ != nullptr ? errand.next_->previous_ : flow.last) = errand.previous_;
  errand.queued_ = false;
  size_.fetch_sub(1, std::memory_order_release);
  if (flow.first != nullptr) return;
  ErrandShare& share = *flow.share;
  share.flows.Remove(flow);
  if (!share.flows.empty()) return;
  ring_.Remove(share);
  if (shares_.size() <= kKeptShares) return;
  if (last_share_ == &share) last_share_ = nullptr;
  shares_.erase(share.account);
}

Errand* ErrandQueue::At(size_t place) const {
  if (ring_.empty()) return nullptr;
  ErrandShare* share = ring_.current();
  do {
    ErrandFlow* flow = share->flows.current();
    do {
      for (Errand* errand = flow->first; errand != nullptr; errand = errand->next_) {
        if (place-- == 0) return errand;
      }
      flow = flow->next;
    } while (flow != share->flows.current());
    share = share->next;
  } while (share != ring_.current());
  return nullptr;
}

Errand* ErrandQueue::Take(size_t place) {
  if (size() == 0) return nullptr;
  SpinLockHolder lock(lock_);
  Errand* const errand = At(place);
  if (errand == nullptr) return nullptr;
  if (place == 0) {
    ring_.current()->flows.Rotate();
    ring_.Rotate();
  }
  Unlink(*errand);
  return errand;
}

Errand* ErrandQueue::TakeOf(Run& run) {
  if (size() == 0) return nullptr;
  SpinLockHolder lock(lock_);
  Errand* const errand = run.errands().first;
  if (errand != nullptr) Unlink(*errand);
  return errand;
}

bool ErrandQueue::TakeBack(Errand& errand) {
  if (size() == 0) return false;
  SpinLockHolder lock(lock_);
  if (!errand.queued_) return false;
  Unlink(errand);
  return true;
}

std::vector<Errand*> ErrandQueue::TakeAllOf(Run& run) {
  std::vector<Errand*> taken;
  if (size() == 0) return taken;
  SpinLockHolder lock(lock_);
  while (Errand* const errand = run.errands().first) {
    Unlink(*errand);
    taken.push_back(errand);
  }
  return taken;
}

}  // namespace pto::engine

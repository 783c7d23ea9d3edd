#include "runtime/engine/errand.h"

namespace pto {

void ErrandQueue::Push(Errand& errand) {
  {
    SpinLockHolder lock(lock_);
    errand.previous_ = last_;
    errand.next_ = nullptr;
    (last_ != nullptr ? last_->next_ : first_) = &errand;
    last_ = &errand;
    errand.queued_ = true;
    size_.fetch_add(1, std::memory_order_release);
  }
  parking_.Wake(1);
}

void ErrandQueue::Unlink(Errand& errand) {
  (errand.previous_ != nullptr ? errand.previous_->next_ : first_) = errand.next_;
  (errand.next_ != nullptr ? errand.next_->previous_ : last_) = errand.previous_;
  errand.queued_ = false;
  size_.fetch_sub(1, std::memory_order_release);
}

Errand* ErrandQueue::Take(size_t place) {
  if (size() == 0) return nullptr;
  SpinLockHolder lock(lock_);
  Errand* errand = first_;
  for (; errand != nullptr && place > 0; --place) errand = errand->next_;
  if (errand != nullptr) Unlink(*errand);
  return errand;
}

Errand* ErrandQueue::TakeOf(const Run& run) {
  if (size() == 0) return nullptr;
  SpinLockHolder lock(lock_);
  Errand* errand = first_;
  while (errand != nullptr && errand->run_ != &run) errand = errand->next_;
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

std::vector<Errand*> ErrandQueue::TakeAllOf(const Run& run) {
  std::vector<Errand*> taken;
  if (size() == 0) return taken;
  SpinLockHolder lock(lock_);
  for (Errand* errand = first_; errand != nullptr;) {
    Errand* const next = errand->next_;
    if (errand->run_ == &run) {
      Unlink(*errand);
      taken.push_back(errand);
    }
    errand = next;
  }
  return taken;
}

}  // namespace pto

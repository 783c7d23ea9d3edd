#include "runtime/engine/wait_table.h"

#include "runtime/base/log.h"

namespace pto {

WaitTable::~WaitTable() { PTO_CHECK(size() == 0, "somebody still waits for a signal"); }

bool WaitTable::Add(Waiter& waiter, const Key& key, absl::FunctionRef<void()> entered) {
  Bucket& bucket = BucketOf(key.address);
  MutexLock lock(bucket.mutex);
  bucket.count.fetch_add(1);
  if (waiter.Holds(waiter.signal_.Load())) {
    bucket.count.fetch_sub(1);
    return false;
  }
  // Whoever changes the word from here on sees the count, and waits for the lock.
  waiter.id_ = key.id;
  waiter.previous_ = bucket.last;
  waiter.next_ = nullptr;
  (bucket.last != nullptr ? bucket.last->next_ : bucket.first) = &waiter;
  bucket.last = &waiter;
  entered();
  return true;
}

void WaitTable::Unlink(Bucket& bucket, Waiter& waiter) {
  (waiter.previous_ != nullptr ? waiter.previous_->next_ : bucket.first) = waiter.next_;
  (waiter.next_ != nullptr ? waiter.next_->previous_ : bucket.last) = waiter.previous_;
  bucket.count.fetch_sub(1);
}

void WaitTable::Notify(const SignalWord& signal, pto_notify_op op, int64_t value) {
  signal.Change(op, value);
  Bucket& bucket = BucketOf(signal.address);
  if (bucket.count.load() == 0) return;
  // Those that are taken out belong to this thread, and are a list of their own.
  Waiter* woken = nullptr;
  Waiter** end = &woken;
  {
    MutexLock lock(bucket.mutex);
    for (Waiter* waiter = bucket.first; waiter != nullptr;) {
      Waiter* const next = waiter->next_;
      if (waiter->signal_.address == signal.address && waiter->Holds(waiter->signal_.Load())) {
        Unlink(bucket, *waiter);
        waiter->next_ = nullptr;
        *end = waiter;
        end = &waiter->next_;
      }
      waiter = next;
    }
  }
  while (woken != nullptr) {
    Waiter* const waiter = woken;
    woken = waiter->next_;
    waiter->OnEnd(WaitEnd::kHolds);
  }
}

bool WaitTable::End(const Key& key, WaitEnd end) {
  Bucket& bucket = BucketOf(key.address);
  Waiter* found = nullptr;
  {
    MutexLock lock(bucket.mutex);
    for (found = bucket.first; found != nullptr && found->id_ != key.id;) found = found->next_;
    if (found == nullptr) return false;
    Unlink(bucket, *found);
  }
  found->OnEnd(end);
  return true;
}

size_t WaitTable::size() const {
  size_t size = 0;
  for (const Bucket& bucket : buckets_) size += bucket.count.load();
  return size;
}

}  // namespace pto

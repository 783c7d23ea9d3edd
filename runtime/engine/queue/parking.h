#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/mutex.h"

namespace pto {

// Where executors sleep when there is nothing to do. A sleeper first takes a ticket, then looks
// for work, then parks with the ticket: a wake-up in between is not lost. Thread-safe.
class Parking {
 public:
  uint64_t Ticket() const { return epoch_.load(std::memory_order_seq_cst); }

  int32_t sleepers() const { return sleepers_.load(std::memory_order_relaxed); }
  bool has_sleepers() const { return sleepers_.load(std::memory_order_relaxed) > 0; }

  // Sleeps until there was a Wake after the ticket.
  void Park(uint64_t ticket) {
    MutexLock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (epoch_.load(std::memory_order_seq_cst) == ticket) condition_.Wait(mutex_);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Wakes up to `count` sleepers. Cheap when none sleeps.
  void Wake(uint64_t count) {
    if (count == 0) return;
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    MutexLock lock(mutex_);
    if (count == 1) {
      condition_.NotifyOne();
    } else {
      condition_.NotifyAll();
    }
  }

 private:
  Mutex mutex_;
  CondVar condition_;
  std::atomic<uint64_t> epoch_{0};
  std::atomic<int32_t> sleepers_{0};
};

}  // namespace pto

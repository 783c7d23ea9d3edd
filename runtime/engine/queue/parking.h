#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/mutex.h"

namespace pto::engine {

// Idle workers sleep here. A worker takes a ticket, looks for work, and parks with the ticket, so
// it does not miss a wake-up in between. Thread-safe.
class Parking {
 public:
  uint64_t Ticket() const { return epoch_.load(std::memory_order_seq_cst); }

  int32_t sleepers() const { return sleepers_.load(std::memory_order_relaxed); }
  bool has_sleepers() const { return sleepers_.load(std::memory_order_relaxed) > 0; }

  // Blocks until Wake is called, or returns at once if it was called after the ticket was taken.
  void Park(uint64_t ticket) {
    MutexLock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (epoch_.load(std::memory_order_seq_cst) == ticket) condition_.Wait(mutex_);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Wakes one sleeper if `count` is 1, otherwise all. Takes no lock when nobody sleeps.
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

}  // namespace pto::engine

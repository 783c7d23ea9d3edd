#pragma once

#include <atomic>
#include <thread>

namespace pto {

// For critical sections of a few instructions. Yields the CPU if the holder has been preempted.
class SpinLock {
 public:
  void Lock() {
    while (true) {
      if (!held_.exchange(true, std::memory_order_acquire)) return;
      for (int i = 0; held_.load(std::memory_order_relaxed); ++i) {
        if (i >= 64) {
          std::this_thread::yield();
          i = 0;
        }
      }
    }
  }
  void Unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

class SpinLockHolder {
 public:
  explicit SpinLockHolder(SpinLock& lock) : lock_(lock) { lock_.Lock(); }
  ~SpinLockHolder() { lock_.Unlock(); }
  SpinLockHolder(const SpinLockHolder&) = delete;
  SpinLockHolder& operator=(const SpinLockHolder&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace pto

#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/core_time.h"
#include "runtime/base/spin_lock.h"

namespace pto::daemon {

// What somebody has used.
struct UsageAmount {
  uint64_t core_ns = 0;              // of all cores together
  uint64_t memory_byte_seconds = 0;  // of device memory
  uint64_t runs = 0;                 // that were accepted

  bool empty() const { return core_ns == 0 && memory_byte_seconds == 0 && runs == 0; }
  UsageAmount& operator+=(const UsageAmount& other) {
    core_ns += other.core_ns;
    memory_byte_seconds += other.memory_byte_seconds;
    runs += other.runs;
    return *this;
  }
};

// Counts what one principal uses, until UsageMeter takes it. Shared by the sessions of the
// principal and by what they have charged. Thread-safe.
class UsageCounter {
 public:
  explicit UsageCounter(const Clock& clock) : clock_(clock), since_ns_(clock.NowNanos()) {}
  UsageCounter(const UsageCounter&) = delete;
  UsageCounter& operator=(const UsageCounter&) = delete;

  // For the engine.
  CoreTime& core_time() { return core_time_; }
  void CountRun() { runs_.fetch_add(1, std::memory_order_relaxed); }
  // Device memory is held, or not any more.
  void Hold(uint64_t bytes) {
    SpinLockHolder lock(lock_);
    Measure();
    held_bytes_ += bytes;
  }
  void Release(uint64_t bytes) {
    SpinLockHolder lock(lock_);
    Measure();
    held_bytes_ -= bytes;
  }

  // What was used since the last call. `ns_per_tick` is the unit of the core time.
  UsageAmount Take(double ns_per_tick);
  // Whether something is being used, or was since the last Take.
  bool idle() const;

 private:
  static constexpr unsigned kNsPerSecond = 1'000'000'000;

  // Counts what was held until now. With the lock.
  void Measure() {
    const int64_t now = clock_.NowNanos();
    if (now > since_ns_) {
      byte_ns_ +=
          static_cast<unsigned __int128>(held_bytes_) * static_cast<uint64_t>(now - since_ns_);
      since_ns_ = now;
    }
  }

  const Clock& clock_;
  CoreTime core_time_;
  std::atomic<uint64_t> runs_{0};
  mutable SpinLock lock_;
  // lock_ guards all members below.
  uint64_t held_bytes_ = 0;
  int64_t since_ns_;
  unsigned __int128 byte_ns_ = 0;  // not taken yet
};

}  // namespace pto::daemon

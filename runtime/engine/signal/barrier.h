#pragma once

#include <cstdint>

#include "runtime/base/mutex.h"
#include "runtime/engine/signal/signal_word.h"
#include "runtime/engine/signal/wait_table.h"

namespace pto::engine {

// A barrier for the blocks of a task, reusable any number of times. Blocks wait for a signal of the
// barrier, whose value is the number of completed meetings. Thread-safe.
class Barrier {
 public:
  explicit Barrier(uint32_t expected) : expected_(expected) {}

  struct Arrival {
    enum Kind { kPassed, kWaits, kBroken };
    Kind kind = kPassed;
    int64_t meeting = 0;  // for kWaits: wait until the signal reaches this
  };

  // A block arrives. The last one releases all others.
  Arrival Arrive(WaitTable& waits) {
    int64_t meeting = 0;
    {
      MutexLock lock(mutex_);
      if (broken_) return {Arrival::kBroken, 0};
      meeting = meetings_ + 1;
      if (++arrived_ < expected_) return {Arrival::kWaits, meeting};
      arrived_ = 0;
      meetings_ = meeting;
    }
    waits.Notify(signal(), PTO_SET, meeting);
    return {Arrival::kPassed, 0};
  }

  // A block has ended, so no meeting can complete any more. Releases the waiting blocks.
  void Break(WaitTable& waits) {
    {
      MutexLock lock(mutex_);
      if (broken_) return;
      broken_ = true;
    }
    waits.Notify(signal(), PTO_SET, INT64_MAX);
  }

  // Whether the meeting completed. Blocks call it after their wait.
  bool Met(int64_t meeting) const {
    MutexLock lock(mutex_);
    return meetings_ >= meeting;
  }

  uint32_t expected() const { return expected_; }
  uint32_t arrived() const {
    MutexLock lock(mutex_);
    return arrived_;
  }
  SignalWord signal() { return {&word_, PTO_I64}; }

 private:
  const uint32_t expected_;
  mutable Mutex mutex_;
  uint32_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t meetings_ ABSL_GUARDED_BY(mutex_) = 0;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  alignas(8) int64_t word_ = 0;
};

}  // namespace pto::engine

#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"

namespace pto::engine {

// The timers that stop a run: one limits its total time, one the time until its first task starts.
// Thread-safe.
class RunDeadlines {
 public:
  struct Limits {
    int64_t from_ns = 0;  // when the run was accepted
    // From then on; 0: no limit.
    int64_t timeout_ns = 0;
    int64_t queue_timeout_ns = 0;
  };

  // Calls `stop` with RUN_DEADLINE or QUEUE_DEADLINE when a limit expires; with the latter only if
  // `has_started` returns false. Both may be called until the run is gone, so they must not own it.
  // `group`: see TimerQueue::Schedule. Call it once; timers are cancelled at once after Disarm.
  void Arm(TimerQueue& timers, const Limits& limits, const void* group,
           const std::function<bool()>& has_started,
           const std::function<void(const absl::Status&)>& stop);
  // Called when the run has ended, also from within `stop`.
  void Disarm();

 private:
  void Keep(TimerQueue& timers, TimerQueue::Id id);

  Mutex mutex_;
  TimerQueue* timers_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::array<TimerQueue::Id, 2> ids_ ABSL_GUARDED_BY(mutex_) = {};
  bool disarmed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto::engine

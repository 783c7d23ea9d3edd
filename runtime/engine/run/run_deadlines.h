#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"

namespace pto {

// The timers that stop a run: one for its end, one for the start of its first task. Thread-safe.
class RunDeadlines {
 public:
  struct Limits {
    int64_t from_ns = 0;  // when the run was accepted
    // From then on; 0 means no limit.
    int64_t timeout_ns = 0;
    int64_t queue_timeout_ns = 0;
  };

  // Calls `stop` with RUN_DEADLINE or QUEUE_DEADLINE when a time is up; the latter only unless
  // `has_started`. Both may be called until the run is gone, so they must not own it. `group` is
  // that of TimerQueue::Schedule. Once; does nothing after Disarm.
  void Arm(TimerQueue& timers, const Limits& limits, const void* group,
           const std::function<bool()>& has_started,
           const std::function<void(const absl::Status&)>& stop);
  // The run has ended. May be called by `stop`.
  void Disarm();

 private:
  void Keep(TimerQueue& timers, TimerQueue::Id id);

  Mutex mutex_;
  TimerQueue* timers_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::array<TimerQueue::Id, 2> ids_ ABSL_GUARDED_BY(mutex_) = {};
  bool disarmed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto

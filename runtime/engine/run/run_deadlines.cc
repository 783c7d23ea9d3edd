#include "runtime/engine/run/run_deadlines.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/error.h"

namespace pto::engine {
namespace {

std::string TimeText(int64_t ns) { return absl::FormatDuration(absl::Nanoseconds(ns)); }

}  // namespace

void RunDeadlines::Arm(TimerQueue& timers, const Limits& limits, const void* group,
                       const std::function<bool()>& has_started,
                       const std::function<void(const absl::Status&)>& stop) {
  if (limits.timeout_ns > 0) {
    const std::string time = TimeText(limits.timeout_ns);
    const absl::Status error =
        Error(reason::kRunDeadline, absl::StrCat("the run's time of ", time, " is up"))
            .With("timeout", time);
    Keep(timers, timers.Schedule(
                     limits.from_ns + limits.timeout_ns, [stop, error] { stop(error); }, group));
  }
  if (limits.queue_timeout_ns > 0) {
    const std::string time = TimeText(limits.queue_timeout_ns);
    const absl::Status error =
        Error(reason::kQueueDeadline, absl::StrCat("no task of the run has started in ", time))
            .With("timeout", time);
    const auto stop_queued = [has_started, stop, error] {
      if (!has_started()) stop(error);
    };
    Keep(timers, timers.Schedule(limits.from_ns + limits.queue_timeout_ns, stop_queued, group));
  }
}

void RunDeadlines::Keep(TimerQueue& timers, TimerQueue::Id id) {
  {
    MutexLock lock(mutex_);
    if (!disarmed_) {
      timers_ = &timers;
      ids_[ids_[0] == 0 ? 0 : 1] = id;
      return;
    }
  }
  // The run has ended already, so Disarm did not see this timer.
  timers.Cancel(id);
}

void RunDeadlines::Disarm() {
  std::array<TimerQueue::Id, 2> ids = {};
  TimerQueue* timers = nullptr;
  {
    MutexLock lock(mutex_);
    disarmed_ = true;
    ids.swap(ids_);
    timers = timers_;
  }
  for (const TimerQueue::Id id : ids) {
    if (id != 0) timers->Cancel(id);
  }
}

}  // namespace pto::engine

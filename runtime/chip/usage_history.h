#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto::engine {

// The usage of a resource over time: its most recent changes. Thread-safe.
class UsageHistory {
 public:
  static constexpr size_t kMaxPoints = 1024;

  // From `time` on, `used` was in use.
  struct Point {
    absl::Time time;
    uint64_t used = 0;
  };

  explicit UsageHistory(const Clock& clock = Clock::Real()) : clock_(clock) {}

  // The usage changes now; `used()` returns the new value.
  template <typename Used>
  void Add(const Used& used) {
    MutexLock lock(mutex_);
    // Called under the lock, so that the last point is always the newest value.
    points_.push_back({clock_.WallTime(), used()});
    if (points_.size() <= kMaxPoints) return;
    points_.pop_front();
    all_ = false;
  }

  // The usage at `from`, unless that is forgotten, and its changes until `to`.
  std::vector<Point> Between(absl::Time from, absl::Time to) const;

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  std::deque<Point> points_ ABSL_GUARDED_BY(mutex_);
  bool all_ ABSL_GUARDED_BY(mutex_) =
      true;  // nothing is forgotten: the usage before the first point was 0
};

}  // namespace pto::engine

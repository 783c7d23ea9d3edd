#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto {

// How much of something was in use at which time: its newest changes. Thread-safe.
class UsageHistory {
 public:
  static constexpr size_t kMaxPoints = 1024;

  // From `time` on so much was in use.
  struct Point {
    absl::Time time;
    uint64_t used = 0;
  };

  explicit UsageHistory(const Clock& clock = Clock::Real()) : clock_(clock) {}

  // It changes now, to what `used` says.
  template <typename Used>
  void Add(const Used& used) {
    MutexLock lock(mutex_);
    // Asked under the lock, so that the last point is never an older one's.
    points_.push_back({clock_.WallTime(), used()});
    if (points_.size() <= kMaxPoints) return;
    points_.pop_front();
    all_ = false;
  }

  // What was in use at `from`, unless that is forgotten, and how it changed until `to`.
  std::vector<Point> Between(absl::Time from, absl::Time to) const;

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  std::deque<Point> points_ ABSL_GUARDED_BY(mutex_);
  bool all_ ABSL_GUARDED_BY(mutex_) = true;  // nothing is forgotten: it began with none in use
};

}  // namespace pto

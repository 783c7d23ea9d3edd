#include "runtime/chip/usage_history.h"

#include <algorithm>

namespace pto::engine {

std::vector<UsageHistory::Point> UsageHistory::Between(absl::Time from, absl::Time to) const {
  MutexLock lock(mutex_);
  std::vector<Point> points;
  const auto after = std::find_if(points_.begin(), points_.end(),
                                  [&](const Point& point) { return point.time > from; });
  if (after != points_.begin()) {
    points.push_back({from, std::prev(after)->used});
  } else if (all_) {
    points.push_back({from, 0});
  }
  for (auto it = after; it != points_.end() && it->time <= to; ++it) points.push_back(*it);
  return points;
}

}  // namespace pto::engine

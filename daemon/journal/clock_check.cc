#include "daemon/journal/clock_check.h"

namespace pto::daemon {

ClockCheck::ClockCheck(const Clock* clock, absl::Time known)
    : clock_(clock),
      believed_wall_(known == absl::InfinitePast() ? clock->WallTime() : known),
      believed_ns_(clock->NowNanos()) {}

bool ClockCheck::Believe() {
  const absl::Time wall = clock_->WallTime();
  const int64_t now_ns = clock_->NowNanos();
  bool believe = IsNear(wall, believed_wall_ + absl::Nanoseconds(now_ns - believed_ns_));
  if (!believe) {
    if (!doubtful_ || !IsNear(wall, doubted_wall_ + absl::Nanoseconds(now_ns - doubted_ns_))) {
      since_ns_ = now_ns;
    }
    doubted_wall_ = wall;
    doubted_ns_ = now_ns;
    believe = now_ns - since_ns_ >= absl::ToInt64Nanoseconds(kProbation);
  }
  doubtful_ = !believe;
  if (believe) {
    believed_wall_ = wall;
    believed_ns_ = now_ns;
  }
  return believe;
}

}  // namespace pto::daemon

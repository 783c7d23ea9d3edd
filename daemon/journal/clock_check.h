#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "runtime/base/clock.h"

namespace pto::daemon {

// Whether the wall clock can be believed, before anything is forgotten because it is old. A clock
// that has been set, by more than a day and in either direction, is not believed until it has gone
// on regularly for an hour or is back where it was. Not thread-safe.
class ClockCheck {
 public:
  static constexpr absl::Duration kMaxStep = absl::Hours(24);
  static constexpr absl::Duration kProbation = absl::Hours(1);

  // `known`: the newest time before, which was believed; InfinitePast when there is none.
  ClockCheck(const Clock* clock, absl::Time known);

  // Looks at the clock. Call it now and then.
  bool Believe();
  // The newest time that was believed.
  absl::Time believed() const { return believed_wall_; }

 private:
  static bool IsNear(absl::Time a, absl::Time b) { return absl::AbsDuration(a - b) <= kMaxStep; }

  const Clock* const clock_;
  bool doubtful_ = false;
  // The newest time that was believed, and when the monotonic clock said so.
  absl::Time believed_wall_;
  int64_t believed_ns_;
  // The same of the last look at a clock that is not believed, and since when it is not.
  absl::Time doubted_wall_;
  int64_t doubted_ns_ = 0;
  int64_t since_ns_ = 0;
};

}  // namespace pto::daemon

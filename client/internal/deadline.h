#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "grpc/support/time.h"
#include "runtime/base/clock.h"

namespace pto::internal {

// The deadline of a call, on the monotonic clock. A value type.
class Deadline {
 public:
  // InfiniteDuration means never; zero or negative means now.
  static Deadline After(absl::Duration timeout) {
    if (timeout == absl::InfiniteDuration()) return Deadline(kNever, timeout);
    timeout = std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24 * 365));
    return Deadline(Clock::Real().NowNanos() + absl::ToInt64Nanoseconds(timeout), timeout);
  }

  static Deadline Now() { return After(absl::ZeroDuration()); }
  static Deadline Never() { return After(absl::InfiniteDuration()); }

  // The earlier of this deadline and `timeout` from now.
  Deadline AtMost(absl::Duration timeout) const {
    const Deadline other = After(timeout);
    return other.at_ns_ < at_ns_ ? other : *this;
  }

  // The original timeout, for messages.
  absl::Duration timeout() const { return timeout_; }

  bool Passed() const { return at_ns_ != kNever && Clock::Real().NowNanos() >= at_ns_; }

  // Never negative.
  absl::Duration Remaining() const {
    if (at_ns_ == kNever) return absl::InfiniteDuration();
    return absl::Nanoseconds(std::max<int64_t>(0, at_ns_ - Clock::Real().NowNanos()));
  }

  gpr_timespec ToGrpc() const {
    if (at_ns_ == kNever) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_nanos(absl::ToInt64Nanoseconds(Remaining()), GPR_TIMESPAN));
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  Deadline(int64_t at_ns, absl::Duration timeout) : at_ns_(at_ns), timeout_(timeout) {}

  int64_t at_ns_;
  absl::Duration timeout_;
};

}  // namespace pto::internal

#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "runtime/base/clock.h"

namespace pto::daemon::testing {

// A clock whose time of day can be set, independent of the time that passes.
class WrongClock final : public Clock {
 public:
  int64_t NowNanos() const override { return clock_.NowNanos(); }
  absl::Time WallTime() const override {
    return clock_.WallTime() + absl::Nanoseconds(off_.load(std::memory_order_acquire));
  }
  void Advance(absl::Duration by) { clock_.Advance(by); }
  // Sets it this far ahead of the right time.
  void Set(absl::Duration ahead) {
    off_.store(absl::ToInt64Nanoseconds(ahead), std::memory_order_release);
  }

 private:
  ManualClock clock_;
  std::atomic<int64_t> off_{0};
};

}  // namespace pto::daemon::testing

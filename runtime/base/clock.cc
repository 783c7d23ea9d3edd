#include "runtime/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace pto {
namespace {

class RealClock final : public Clock {
 public:
  int64_t NowNanos() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  absl::Time WallTime() const override { return absl::Now(); }
};

}  // namespace

Clock& Clock::Real() {
  static RealClock clock;
  return clock;
}

}  // namespace pto

#include "runtime/base/clock.h"

#include "gtest/gtest.h"

namespace pto {
namespace {

TEST(RealClockTest, NeverGoesBack) {
  int64_t last = Clock::Real().NowNanos();
  EXPECT_GT(last, 0);
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = Clock::Real().NowNanos();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(RealClockTest, CountsNanoseconds) {
  const absl::Time wall = Clock::Real().WallTime();
  const int64_t start = Clock::Real().NowNanos();
  while (Clock::Real().NowNanos() == start) {
  }
  EXPECT_LE(Clock::Real().WallTime() - wall, absl::Minutes(1));
  EXPECT_GT(wall, absl::FromUnixSeconds(1'500'000'000));
}

TEST(ManualClockTest, StandsStillUntilItIsMoved) {
  ManualClock clock;
  const int64_t start = clock.NowNanos();
  const absl::Time wall = clock.WallTime();
  EXPECT_GT(start, 0);
  EXPECT_EQ(clock.NowNanos(), start);
  clock.Advance(absl::Milliseconds(5));
  EXPECT_EQ(clock.NowNanos(), start + 5'000'000);
  EXPECT_EQ(clock.WallTime() - wall, absl::Milliseconds(5));
  clock.Advance(absl::ZeroDuration());
  EXPECT_EQ(clock.NowNanos(), start + 5'000'000);
}

}  // namespace
}  // namespace pto

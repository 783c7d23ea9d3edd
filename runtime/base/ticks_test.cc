#include "runtime/base/ticks.h"

#include <gtest/gtest.h>

#include <chrono>

namespace pto {
namespace {

TEST(TicksTest, RiseWithTime) {
  const uint64_t first = Ticks();
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(50)) {
  }
  EXPECT_GT(Ticks(), first);
  EXPECT_GT(TicksPerMicrosecond(), 0);
}

TEST(TicksTest, AScaleStaysBetweenItsEnds) {
  const TickScale scale(1000, 50, 2000, 150);
  EXPECT_EQ(scale.ToNanos(50), 1000);
  EXPECT_EQ(scale.ToNanos(100), 1500);
  EXPECT_EQ(scale.ToNanos(150), 2000);
  EXPECT_EQ(scale.ToNanos(10), 1000);
  EXPECT_EQ(scale.ToNanos(1'000'000), 2000);
}

TEST(TicksTest, AClockThatStandsStillGivesOneTime) {
  const TickScale scale(1000, 50, 1000, 150);
  EXPECT_EQ(scale.ToNanos(100), 1000);
  const TickScale no_ticks(1000, 50, 2000, 50);
  EXPECT_EQ(no_ticks.ToNanos(50), 1000);
}

}  // namespace
}  // namespace pto

#include "runtime/engine/signal/barrier.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace pto::engine {
namespace {

TEST(BarrierTest, TheLastLetsAllGo) {
  WaitTable waits;
  Barrier barrier(3);
  for (int64_t meeting = 1; meeting <= 5; ++meeting) {
    for (int i = 0; i < 2; ++i) {
      const Barrier::Arrival arrival = barrier.Arrive(waits);
      EXPECT_EQ(arrival.kind, Barrier::Arrival::kWaits);
      EXPECT_EQ(arrival.meeting, meeting);
      EXPECT_LT(barrier.signal().Load(), meeting);
    }
    EXPECT_EQ(barrier.arrived(), 2u);
    EXPECT_EQ(barrier.Arrive(waits).kind, Barrier::Arrival::kPassed);
    EXPECT_EQ(barrier.signal().Load(), meeting);
    EXPECT_TRUE(barrier.Met(meeting));
    EXPECT_FALSE(barrier.Met(meeting + 1));
  }
}

// A meeting that completed before the barrier broke still counts as met afterwards.
TEST(BarrierTest, BreakingEndsTheMeetingAtHandOnly) {
  WaitTable waits;
  Barrier barrier(2);
  const int64_t first = barrier.Arrive(waits).meeting;
  barrier.Arrive(waits);
  const int64_t second = barrier.Arrive(waits).meeting;
  barrier.Break(waits);
  EXPECT_TRUE(barrier.Met(first));
  EXPECT_FALSE(barrier.Met(second));
  EXPECT_GE(barrier.signal().Load(), second);
  EXPECT_EQ(barrier.Arrive(waits).kind, Barrier::Arrival::kBroken);
}

}  // namespace
}  // namespace pto::engine

#include "daemon/rpc/rhythm.h"

#include <gtest/gtest.h>

namespace pto::daemon::rpc {
namespace {

TEST(RhythmTest, FollowsTheClient) {
  Rhythm rhythm;
  int64_t now = 1'000'000'000;
  rhythm.Asked(now);
  EXPECT_FALSE(rhythm.Answered(now));  // nothing is known of the first one
  rhythm.Asked(now += Rhythm::kQuickNs - 1);
  EXPECT_TRUE(rhythm.Answered(now));
  rhythm.Asked(now += Rhythm::kQuickNs);
  EXPECT_FALSE(rhythm.Answered(now));
  rhythm.Asked(now += 10);
  EXPECT_TRUE(rhythm.Answered(now));
}

}  // namespace
}  // namespace pto::daemon::rpc

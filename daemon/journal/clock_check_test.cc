#include "daemon/journal/clock_check.h"

#include "daemon/journal/testing/wrong_clock.h"
#include "gtest/gtest.h"

namespace pto::daemon {
namespace {

class ClockCheckTest : public ::testing::Test {
 protected:
  testing::WrongClock clock_;
  const absl::Time start_ = clock_.WallTime();
};

TEST_F(ClockCheckTest, BelievesWhatItCannotCompare) {
  EXPECT_TRUE(ClockCheck(&clock_, absl::InfinitePast()).Believe());
}

TEST_F(ClockCheckTest, DoubtsAStartThatIsFarFromTheNewestRecord) {
  for (const int sign : {-1, 1}) {
    EXPECT_TRUE(ClockCheck(&clock_, start_ + sign * absl::Hours(23)).Believe());
    EXPECT_FALSE(ClockCheck(&clock_, start_ + sign * absl::Hours(25)).Believe());
  }
}

TEST_F(ClockCheckTest, BelievesAfterAnHourOfRegularTime) {
  clock_.Set(absl::Hours(8 * 24));
  ClockCheck check(&clock_, start_);
  EXPECT_FALSE(check.Believe());
  EXPECT_EQ(check.believed(), start_);
  clock_.Advance(absl::Minutes(59));
  EXPECT_FALSE(check.Believe());
  clock_.Advance(absl::Minutes(1));
  EXPECT_TRUE(check.Believe());
  EXPECT_EQ(check.believed(), clock_.WallTime());
}

TEST_F(ClockCheckTest, BelievesAtOnceWhenItIsBack) {
  clock_.Set(absl::Hours(8 * 24));
  ClockCheck check(&clock_, start_);
  EXPECT_FALSE(check.Believe());
  clock_.Advance(absl::Minutes(5));
  clock_.Set(absl::Seconds(3));
  EXPECT_TRUE(check.Believe());
}

TEST_F(ClockCheckTest, AClockThatIsSetAgainMustWaitAgain) {
  ClockCheck check(&clock_, start_);
  EXPECT_TRUE(check.Believe());
  clock_.Set(absl::Hours(8 * 24));
  EXPECT_FALSE(check.Believe());
  clock_.Advance(absl::Minutes(50));
  clock_.Set(absl::Hours(-8 * 24));
  EXPECT_FALSE(check.Believe());
  clock_.Advance(absl::Minutes(50));
  EXPECT_FALSE(check.Believe());
  clock_.Advance(absl::Minutes(10));
  EXPECT_TRUE(check.Believe());
}

TEST_F(ClockCheckTest, BelievesHoweverRarelyItLooks) {
  ClockCheck check(&clock_, start_);
  clock_.Advance(absl::Hours(1000));
  EXPECT_TRUE(check.Believe());
}

}  // namespace
}  // namespace pto::daemon

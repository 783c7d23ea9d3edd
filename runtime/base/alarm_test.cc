#include "runtime/base/alarm.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/base/timer.h"

namespace pto {
namespace {

class AlarmTest : public ::testing::Test {
 protected:
  void At(int64_t ns) {
    clock_.Advance(absl::Nanoseconds(ns - clock_.NowNanos()));
    timers_.RunDue();
  }

  ManualClock clock_;
  TimerQueue timers_{clock_};
  int64_t start_ = clock_.NowNanos();
  int calls_ = 0;
  int64_t next_ = 0;
};

TEST_F(AlarmTest, RingsOnceHoweverOftenItIsArmed) {
  Alarm alarm(&timers_, [this] { return ++calls_, next_; });
  alarm.Arm(start_ + 10);
  alarm.Arm(start_ + 5);
  At(start_ + 9);
  EXPECT_EQ(calls_, 0);
  At(start_ + 10);
  EXPECT_EQ(calls_, 1);
  At(start_ + 1000);
  EXPECT_EQ(calls_, 1);
  alarm.Arm(start_ + 2000);
  At(start_ + 2000);
  EXPECT_EQ(calls_, 2);
}

TEST_F(AlarmTest, RingsAgainWhenItsFunctionSays) {
  Alarm alarm(&timers_, [this] { return ++calls_, next_; });
  alarm.Arm(start_ + 10);
  next_ = start_ + 30;
  At(start_ + 10);
  next_ = 0;
  At(start_ + 29);
  EXPECT_EQ(calls_, 1);
  At(start_ + 30);
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(timers_.RunDue(), -1);
}

TEST_F(AlarmTest, TheEarlierTimeCountsWhenItIsArmedDuringACall) {
  Alarm* armed = nullptr;
  int64_t other = start_ + 100;
  Alarm alarm(&timers_, [&] {
    if (other != 0) armed->Arm(std::exchange(other, 0));
    return ++calls_, next_;
  });
  armed = &alarm;
  alarm.Arm(start_ + 10);
  next_ = start_ + 30;
  At(start_ + 10);
  EXPECT_EQ(calls_, 1);
  next_ = 0;
  At(start_ + 30);
  EXPECT_EQ(calls_, 2);
  // The later timer is stale.
  At(start_ + 100);
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(timers_.RunDue(), -1);
  // And the other way round.
  other = start_ + 220;
  alarm.Arm(start_ + 200);
  next_ = start_ + 300;
  At(start_ + 200);
  EXPECT_EQ(calls_, 3);
  next_ = 0;
  At(start_ + 220);
  EXPECT_EQ(calls_, 4);
  At(start_ + 300);
  EXPECT_EQ(calls_, 4);
}

TEST_F(AlarmTest, IsSilentOnceItIsGone) {
  auto alarm = std::make_unique<Alarm>(&timers_, [this] { return ++calls_, next_; });
  alarm->Arm(start_ + 10);
  alarm.reset();
  At(start_ + 10);
  EXPECT_EQ(calls_, 0);
}

TEST_F(AlarmTest, ItsOwnCallMayDestroyIt) {
  std::unique_ptr<Alarm> alarm;
  alarm = std::make_unique<Alarm>(&timers_, [&] {
    alarm.reset();
    ++calls_;
    return start_ + 20;
  });
  alarm->Arm(start_ + 10);
  At(start_ + 10);
  At(start_ + 20);
  EXPECT_EQ(calls_, 1);
}

TEST_F(AlarmTest, WithoutTimersItNeverRings) {
  Alarm alarm(nullptr, [this] { return ++calls_, next_; });
  alarm.Arm(start_);
  EXPECT_EQ(calls_, 0);
}

}  // namespace
}  // namespace pto

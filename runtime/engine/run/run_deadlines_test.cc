#include "runtime/engine/run/run_deadlines.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"

namespace pto::engine {
namespace {

class RunDeadlinesTest : public ::testing::Test {
 protected:
  void Arm(int64_t timeout_ms, int64_t queue_timeout_ms) {
    deadlines_.Arm(
        timers_, {clock_.NowNanos(), timeout_ms * 1'000'000, queue_timeout_ms * 1'000'000}, nullptr,
        [this] { return started_; },
        [this](const absl::Status& error) { stops_.emplace_back(ReasonOf(error)); });
  }
  void Advance(int64_t ms) {
    clock_.Advance(absl::Milliseconds(ms));
    timers_.RunDue();
  }

  ManualClock clock_;
  TimerQueue timers_{clock_};
  RunDeadlines deadlines_;
  bool started_ = false;
  std::vector<std::string> stops_;
};

TEST_F(RunDeadlinesTest, StopsARunThatDoesNotStart) {
  Arm(100, 10);
  Advance(9);
  EXPECT_TRUE(stops_.empty());
  Advance(1);
  EXPECT_EQ(stops_, std::vector<std::string>{"QUEUE_DEADLINE"});
}

TEST_F(RunDeadlinesTest, StopsARunThatDoesNotEnd) {
  Arm(100, 10);
  started_ = true;
  Advance(99);
  EXPECT_TRUE(stops_.empty());
  Advance(1);
  EXPECT_EQ(stops_, std::vector<std::string>{"RUN_DEADLINE"});
}

TEST_F(RunDeadlinesTest, NothingIsCalledAfterTheEnd) {
  Arm(100, 10);
  deadlines_.Disarm();
  Advance(1000);
  EXPECT_TRUE(stops_.empty());
  EXPECT_EQ(timers_.RunDue(), -1);
}

TEST_F(RunDeadlinesTest, ARunThatHasEndedIsNotArmed) {
  deadlines_.Disarm();
  Arm(100, 10);
  EXPECT_EQ(timers_.RunDue(), -1);
}

TEST_F(RunDeadlinesTest, NoLimitNeedsNoTimer) {
  Arm(0, 0);
  EXPECT_EQ(timers_.RunDue(), -1);
  deadlines_.Disarm();
}

}  // namespace
}  // namespace pto::engine

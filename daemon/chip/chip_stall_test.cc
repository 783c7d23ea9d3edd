#include "daemon/chip/chip_stall.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::daemon {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLook = kSecond / 4;

class ChipStallTest : public ::testing::Test {
 protected:
  // Shows the same sign for `time`; returns the last result.
  std::string SeeFor(int64_t time, const ChipSign& sign) {
    std::string said = stall_.See(sign, now_);
    for (int64_t until = now_ + time; now_ < until;) {
      now_ += kLook;
      said = stall_.See(sign, now_);
    }
    return said;
  }

  int64_t now_ = 1;
  ChipStall stall_{10 * kSecond, kLook};
};

const ChipSign kReady = {.ready_tasks = 3, .thread_free = true};
const ChipSign kHung = {.busy_cores = 1, .started_runs = 2, .stopping_runs = 2};

TEST_F(ChipStallTest, ReadyTasksThatNobodyTakes) {
  EXPECT_EQ(SeeFor(9 * kSecond, kReady), "");
  EXPECT_THAT(SeeFor(kSecond, kReady), HasSubstr("ready tasks for 10s"));
  // The stall is over as soon as something happens.
  ChipSign moves = kReady;
  moves.ended_tasks = 1;
  EXPECT_EQ(SeeFor(0, moves), "");
  EXPECT_EQ(SeeFor(9 * kSecond, moves), "");
  EXPECT_NE(SeeFor(kSecond, moves), "");
}

TEST_F(ChipStallTest, KernelsThatDoNotReturn) {
  EXPECT_EQ(SeeFor(9 * kSecond, kHung), "");
  EXPECT_THAT(SeeFor(kSecond, kHung), HasSubstr("told to stop"));
  EXPECT_EQ(SeeFor(kSecond, {}), "");
}

TEST_F(ChipStallTest, AQueueThatDoesNotAnswer) {
  EXPECT_THAT(SeeFor(10 * kSecond, {.silent_ns = 1}), HasSubstr("not answered"));
}

TEST_F(ChipStallTest, WorkThatTakesLongIsNoStall) {
  // A kernel computes while others wait behind it; one of the runs may be about to end.
  EXPECT_EQ(SeeFor(60 * kSecond, {.ready_tasks = 9, .busy_cores = 1, .started_runs = 1}), "");
  EXPECT_EQ(SeeFor(60 * kSecond, {.busy_cores = 3, .started_runs = 2, .stopping_runs = 1}), "");
  // A gang waits for cores of another chip, and other tasks wait behind it.
  EXPECT_EQ(SeeFor(60 * kSecond, {.ready_tasks = 9, .waiting_gangs = 1, .thread_free = true}), "");
  // All threads are busy with other chips.
  EXPECT_EQ(SeeFor(60 * kSecond, {.ready_tasks = 9}), "");
  // Tasks that wait for signals are not ready and hold no core.
  EXPECT_EQ(SeeFor(60 * kSecond, {.thread_free = true, .started_runs = 4}), "");
  EXPECT_EQ(SeeFor(60 * kSecond, {}), "");
}

TEST_F(ChipStallTest, TimeInWhichNobodyLookedDoesNotCount) {
  SeeFor(5 * kSecond, kReady);
  now_ += 3600 * kSecond;
  EXPECT_EQ(SeeFor(kSecond, kReady), "");
  EXPECT_NE(SeeFor(5 * kSecond, kReady), "");
}

TEST_F(ChipStallTest, AnotherKindOrAResetBeginsAnew) {
  SeeFor(9 * kSecond, kReady);
  EXPECT_EQ(SeeFor(9 * kSecond, kHung), "");
  stall_.Forget();
  EXPECT_EQ(SeeFor(9 * kSecond, kHung), "");
  EXPECT_NE(SeeFor(kSecond, kHung), "");
}

TEST(ChipStallOffTest, ZeroMeansNever) {
  ChipStall stall(0, kLook);
  for (int i = 1; i < 1000; ++i) EXPECT_EQ(stall.See(kHung, i * kSecond), "");
}

}  // namespace
}  // namespace pto::daemon

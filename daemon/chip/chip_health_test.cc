#include "daemon/chip/chip_health.h"

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;
using State = ChipHealth::State;

class ChipHealthTest : public ::testing::Test {
 protected:
  ChipHealth::Options MakeOptions() {
    ChipHealth::Options options;
    options.chips = 4;
    options.clock = &clock_;
    options.stall_after = absl::Seconds(10);
    options.look_every = absl::Milliseconds(100);
    options.probe = [this](uint32_t chip) {
      ++probes_;
      return wrong_[chip];
    };
    return options;
  }

  // Checks every 100 ms for `time`; chip 2 shows `sign`.
  void Pass(absl::Duration time, const ChipSign& sign = {}) {
    for (; time > absl::ZeroDuration(); time -= absl::Milliseconds(100)) {
      clock_.Advance(absl::Milliseconds(100));
      health_.See(2, sign);
    }
  }

  ManualClock clock_;
  std::map<uint32_t, std::string> wrong_;
  int probes_ = 0;
  ChipHealth health_{MakeOptions()};
};

TEST_F(ChipHealthTest, AFaultIsSaidAndTheOthersGoOn) {
  EXPECT_THAT(health_.Check({0, 1, 2, 3}), IsOk());
  wrong_[2] = "it is too hot";
  for (uint32_t chip = 0; chip < 4; ++chip) health_.See(chip, {});
  const absl::Status status = health_.Check({1, 2});
  EXPECT_THAT(status, HasReason(reason::kChipUnavailable));
  EXPECT_EQ(status.message(), "chips/2 is FAULTED: it is too hot");
  EXPECT_THAT(GetErrorDetail(status)->metadata, Contains(Pair("fault", "it is too hot")));
  EXPECT_THAT(health_.Check({0, 1, 3}), IsOk());
  EXPECT_FALSE(health_.usable(2));
  EXPECT_EQ(health_.usable_chips(), 3u);
  const ChipHealth::View view = health_.Look(2);
  EXPECT_EQ(view.state, State::kFaulted);
  EXPECT_EQ(view.since, clock_.WallTime());
  EXPECT_EQ(view.fault, status);
  EXPECT_EQ(health_.Look(1).state, State::kActive);
}

TEST_F(ChipHealthTest, ItIsProbedLessAndLessOftenAndComesBackByItself) {
  wrong_[2] = "gone";
  health_.See(2, {});
  EXPECT_EQ(health_.UntilProbe(), absl::Milliseconds(100));
  probes_ = 0;
  // Probes after 100 ms, 300, 700 and 1,500; then every second.
  Pass(absl::Milliseconds(1500));
  EXPECT_EQ(probes_, 4);
  Pass(absl::Seconds(10));
  EXPECT_EQ(probes_, 14);
  EXPECT_EQ(health_.Look(2).faults, 1u);
  wrong_.clear();
  Pass(absl::Seconds(1));
  EXPECT_TRUE(health_.usable(2));
  EXPECT_EQ(health_.UntilProbe(), absl::InfiniteDuration());
  const ChipHealth::View view = health_.Look(2);
  EXPECT_EQ(view.state, State::kActive);
  EXPECT_EQ(view.since, clock_.WallTime());
  EXPECT_THAT(view.fault, IsOk());
  // The fault is remembered.
  EXPECT_THAT(std::string(view.last_fault.message()), HasSubstr("gone"));
  // The next fault starts with short delays again.
  wrong_[2] = "gone again";
  Pass(absl::Milliseconds(100));
  EXPECT_EQ(health_.UntilProbe(), absl::Milliseconds(100));
  EXPECT_EQ(health_.Look(2).faults, 2u);
}

TEST_F(ChipHealthTest, AHangIsAFaultUntilItGoesOn) {
  const ChipSign hangs = {.ready_tasks = 1, .thread_free = true};
  Pass(absl::Seconds(10), hangs);
  EXPECT_TRUE(health_.usable(2));
  Pass(absl::Seconds(1), hangs);
  EXPECT_THAT(std::string(health_.Check({2}).message()), HasSubstr("ready tasks"));
  EXPECT_EQ(health_.Look(2).last_progress, absl::InfinitePast());
  Pass(absl::Seconds(1), {.ended_tasks = 1});
  EXPECT_TRUE(health_.usable(2));
  EXPECT_GE(health_.Look(2).last_progress, clock_.WallTime() - absl::Seconds(1));
  EXPECT_EQ(health_.Look(2).sign.ended_tasks, 1u);
}

TEST_F(ChipHealthTest, AResetProbesAtOnce) {
  wrong_[2] = "gone";
  Pass(absl::Seconds(5));
  State during = State::kActive;
  const auto stop_work = [&] { during = health_.Look(2).state; };
  health_.Reset(2, stop_work);
  EXPECT_EQ(during, State::kResetting);
  EXPECT_EQ(health_.Look(2).state, State::kFaulted);
  EXPECT_EQ(health_.Look(2).faults, 1u);
  wrong_.clear();
  health_.Reset(2, stop_work);
  EXPECT_EQ(health_.Look(2).state, State::kActive);
  // A healthy chip stays active, unless the reset reveals a fault.
  health_.Reset(1, [&] { wrong_[1] = "broken by it"; });
  EXPECT_FALSE(health_.usable(1));
}

TEST_F(ChipHealthTest, AfterAResetAHangHasToShowAgain) {
  const ChipSign hangs = {.ready_tasks = 1, .thread_free = true};
  Pass(absl::Seconds(11), hangs);
  EXPECT_FALSE(health_.usable(2));
  health_.Reset(2, [] {});
  EXPECT_TRUE(health_.usable(2));
  Pass(absl::Seconds(9), hangs);
  EXPECT_TRUE(health_.usable(2));
  Pass(absl::Seconds(2), hangs);
  EXPECT_FALSE(health_.usable(2));
}

TEST(ChipHealthThreadsTest, LooksResetsAndChecksMayCoincide) {
  std::atomic<bool> broken{false};
  ChipHealth::Options options;
  options.chips = 2;
  options.clock = &Clock::Real();
  options.probe = [&](uint32_t chip) { return broken && chip == 1 ? "broken" : ""; };
  ChipHealth health(options);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (int i = 0; i < 2000; ++i) health.See(1, {});
  });
  threads.emplace_back([&] {
    for (int i = 0; i < 2000; ++i) {
      broken = i % 2 == 0;
      health.Reset(1, [] {});
    }
  });
  threads.emplace_back([&] {
    for (int i = 0; i < 2000; ++i) {
      EXPECT_THAT(health.Check({0}), IsOk());
      (void)health.Check({0, 1});
      (void)health.Look(1);
    }
  });
  for (std::thread& thread : threads) thread.join();
  broken = false;
  health.Reset(1, [] {});
  EXPECT_EQ(health.usable_chips(), 2u);
}

}  // namespace
}  // namespace pto::daemon

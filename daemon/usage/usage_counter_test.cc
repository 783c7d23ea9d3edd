#include "daemon/usage/usage_counter.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace pto::daemon {
namespace {

TEST(UsageCounterTest, TakesWhatWasUsedSinceTheLastTime) {
  ManualClock clock;
  UsageCounter counter(clock);
  EXPECT_TRUE(counter.Take(1).empty());
  counter.CountRun();
  counter.CountRun();
  counter.core_time().Add(3'000'000'000);
  const UsageAmount taken = counter.Take(0.5);
  EXPECT_EQ(taken.runs, 2u);
  EXPECT_EQ(taken.core_ns, 1'500'000'000u);
  EXPECT_TRUE(counter.Take(0.5).empty());
}

TEST(UsageCounterTest, MemoryCountsByTheTimeThatItIsHeld) {
  ManualClock clock;
  UsageCounter counter(clock);
  counter.Hold(1000);
  clock.Advance(absl::Seconds(2));
  counter.Hold(500);
  clock.Advance(absl::Seconds(3));
  counter.Release(1000);
  clock.Advance(absl::Seconds(10));
  EXPECT_EQ(counter.Take(1).memory_byte_seconds, 1000u * 2 + 1500 * 3 + 500 * 10);
  EXPECT_FALSE(counter.idle());
  // What is held goes on to count.
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(counter.Take(1).memory_byte_seconds, 500u);
  counter.Release(500);
  clock.Advance(absl::Hours(1));
  EXPECT_TRUE(counter.Take(1).empty());
  EXPECT_TRUE(counter.idle());
}

TEST(UsageCounterTest, WhatIsLessThanAByteAndASecondAddsUp) {
  ManualClock clock;
  UsageCounter counter(clock);
  counter.Hold(1);
  uint64_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    clock.Advance(absl::Milliseconds(30));
    taken += counter.Take(1).memory_byte_seconds;
  }
  EXPECT_EQ(taken, 3u);
}

TEST(UsageCounterTest, LargeAmountsDoNotOverflow) {
  ManualClock clock;
  UsageCounter counter(clock);
  counter.Hold(uint64_t{16} << 40);
  clock.Advance(absl::Hours(24 * 30));
  EXPECT_EQ(counter.Take(1).memory_byte_seconds, (uint64_t{16} << 40) * 3600 * 24 * 30);
}

TEST(UsageCounterTest, ThreadsCountAndNothingIsLost) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 10'000;
  UsageCounter counter(Clock::Real());
  UsageAmount taken;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&counter] {
      for (int round = 0; round < kRounds; ++round) {
        counter.Hold(64);
        counter.CountRun();
        counter.core_time().Add(1);
        counter.Release(64);
      }
    });
  }
  for (int i = 0; i < 100; ++i) taken += counter.Take(1);
  for (std::thread& thread : threads) thread.join();
  taken += counter.Take(1);
  EXPECT_EQ(taken.runs, uint64_t{kThreads} * kRounds);
  EXPECT_EQ(taken.core_ns, uint64_t{kThreads} * kRounds);
  EXPECT_TRUE(counter.idle());
}

}  // namespace
}  // namespace pto::daemon

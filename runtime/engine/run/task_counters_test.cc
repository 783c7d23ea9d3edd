#include "runtime/engine/run/task_counters.h"

#include <gtest/gtest.h>

#include <atomic>

namespace pto::engine {
namespace {

using State = MetDependencies::State;

TEST(TaskCountersTest, AreAllZeroHoweverMany) {
  // In the object, on the heap, mapped, and with large pages.
  for (const size_t count : {1u, 4u, 5u, 1000u, 100'000u, 1'000'000u}) {
    // Reused memory must be zero again.
    for (int round = 0; round < 2; ++round) {
      TaskCounters counters(count);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(counters[i].load(), 0u) << i << " of " << count;
        counters[i].store(7);
      }
    }
  }
}

TEST(MetDependenciesTest, TheLastOneMakesReady) {
  std::atomic<uint32_t> counter{0};
  MetDependencies met(counter, 3);
  EXPECT_EQ(met.Add(false), State::kWaits);
  EXPECT_EQ(met.AddAlone(), State::kWaits);
  EXPECT_EQ(met.Add(false), State::kReady);
}

TEST(MetDependenciesTest, OneFailurePoisonsWheneverItComes) {
  for (int failing = 0; failing < 3; ++failing) {
    std::atomic<uint32_t> counter{0};
    MetDependencies met(counter, 3);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(met.Add(i == failing), State::kWaits);
    EXPECT_EQ(failing == 2 ? met.Add(true) : met.AddAlone(), State::kPoisoned);
  }
}

TEST(MetDependenciesTest, WaitsForMoreThanTheImageKnowsOf) {
  std::atomic<uint32_t> counter{0};
  MetDependencies met(counter, 1);
  met.Expect();
  met.Expect();
  met.Expect();
  EXPECT_EQ(met.Add(false), State::kWaits);
  met.Take(false);
  EXPECT_EQ(met.Add(false), State::kWaits);
  EXPECT_EQ(met.Add(false), State::kReady);
}

TEST(MetDependenciesTest, AFailureBeforeAllIsExpectedIsKept) {
  std::atomic<uint32_t> counter{0};
  MetDependencies met(counter, 0);
  met.Expect();
  met.Expect();
  met.Take(true);
  EXPECT_EQ(met.Add(false), State::kPoisoned);
}

}  // namespace
}  // namespace pto::engine

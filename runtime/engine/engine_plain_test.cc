// Graphs with plain tasks only, which workers run in a separate loop.

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/ticks.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::TestObserver;
using ::pto::engine::testing::TestTask;

constexpr int64_t kLongNs = 3'600'000'000'000;

class EnginePlainTest : public ::testing::Test {
 protected:
  void Make(uint32_t executors) {
    Engine::Options options;
    options.chips = MakeTestChips({24});
    options.timers = &timers_;
    options.executors = executors;
    engine_ = std::make_unique<Engine>(std::move(options));
  }

  // Runs all of it on this thread.
  std::shared_ptr<pto::engine::Run> RunHere(const std::vector<TestTask>& tasks,
                                            engine::testing::KernelBody body) {
    RunSpec spec;
    spec.image = MakeTestGraph(tasks, {24}, std::move(body));
    spec.record_level = RecordLevel::kNone;
    std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Start(run, kLongNs);
    return run;
  }

  TimerQueue timers_{Clock::Real()};
  std::unique_ptr<Engine> engine_;
};

std::vector<TestTask> Wavefront(uint32_t side) {
  std::vector<TestTask> tasks(size_t{side} * side);
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    if (i >= side) tasks[i].after.push_back(i - side);
    if (i % side > 0) tasks[i].after.push_back(i - 1);
  }
  return tasks;
}

TEST_F(EnginePlainTest, WhatIsFirstInTheGraphIsRunNext) {
  Make(0);
  std::vector<uint32_t> order;
  const auto run = RunHere(Wavefront(20), [&](uint32_t task, const pto_context&) {
    order.push_back(task);
    return 0;
  });
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ASSERT_EQ(order.size(), 400u);
  for (uint32_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);

  // One after which many are ready.
  order.clear();
  std::vector<TestTask> fan(50);
  for (size_t i = 1; i < fan.size(); ++i) fan[i].after = {0};
  RunHere(fan, [&](uint32_t task, const pto_context&) {
    order.push_back(task);
    return 0;
  });
  ASSERT_EQ(order.size(), 50u);
  for (uint32_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
}

TEST_F(EnginePlainTest, RootsRunOnceAndInOrderHoweverMany) {
  Make(0);
  std::vector<uint32_t> order;
  const auto run =
      RunHere(std::vector<TestTask>(3000), [&](uint32_t task, const pto_context& context) {
        EXPECT_EQ(context.block_count, 1u);
        order.push_back(task);
        return 0;
      });
  EXPECT_EQ(run->counts().done, 3000u);
  ASSERT_EQ(order.size(), 3000u);
  for (uint32_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
}

TEST_F(EnginePlainTest, AFailureReachesItsConsumersAndNobodyElse) {
  Make(0);
  constexpr uint32_t kSide = 30;
  constexpr uint32_t kBad = 10 * kSide + 10;
  uint32_t calls = 0;
  const auto run = RunHere(Wavefront(kSide), [&](uint32_t task, const pto_context& context) {
    ++calls;
    if (task != kBad) return 0;
    context.api->set_error(&context, "no luck");
    return 3;
  });
  // All below and to the right of it.
  const uint64_t skipped = uint64_t{kSide - 10} * (kSide - 10) - 1;
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(run->counts().skipped, skipped);
  EXPECT_EQ(run->counts().done, kSide * kSide - 1 - skipped);
  EXPECT_EQ(calls, kSide * kSide - skipped);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_NE(run->errors()[0].message().find("no luck"), absl::string_view::npos);
}

TEST_F(EnginePlainTest, WhatOneCallSaysIsNotTheNextOnes) {
  Make(0);
  const auto run = RunHere(std::vector<TestTask>(4), [](uint32_t task, const pto_context& context) {
    if (task == 0) context.api->set_error(&context, "of the first");
    if (task == 1) throw std::runtime_error("thrown");
    return static_cast<int32_t>(task);
  });
  EXPECT_EQ(run->counts().done, 1u);
  ASSERT_EQ(run->errors().size(), 3u);
  EXPECT_NE(run->errors()[0].message().find("thrown"), absl::string_view::npos);
  for (const absl::Status& error : run->errors()) {
    EXPECT_EQ(error.message().find("of the first"), absl::string_view::npos) << error;
  }
}

TEST_F(EnginePlainTest, StopsAtOnce) {
  Make(0);
  uint32_t calls = 0;
  std::vector<TestTask> chain(1000);
  for (uint32_t i = 1; i < chain.size(); ++i) chain[i].after = {i - 1};
  const auto run = RunHere(chain, [&](uint32_t task, const pto_context&) {
    ++calls;
    if (task == 500) {
      engine_->StopIf([](const pto::engine::Run&) { return true; }, RunState::kCancelled,
                      Error(reason::kRunCancelled, "enough"));
    }
    return 0;
  });
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(calls, 501u);
  EXPECT_EQ(run->counts().done, 500u);
}

// A run goes from one thread to several and back to one: counters are then counted in another way.
TEST_F(EnginePlainTest, EachTaskRunsOnceAfterThoseBeforeItWhoeverRunsIt) {
  Make(3);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    constexpr uint32_t kTasks = 3000;
    std::vector<TestTask> tasks(kTasks);
    std::vector<uint8_t> slow(kTasks);
    for (uint32_t i = 0; i < kTasks; ++i) {
      // Narrow and wide parts take turns.
      const uint32_t reach = i / 300 % 2 == 0 ? 2 : 100;
      for (uint32_t d = random() % 4; i > 0 && d > 0; --d) {
        tasks[i].after.push_back(i - 1 - random() % std::min(i, reach));
      }
      slow[i] = i % 600 > 500 && random() % 4 == 0;
    }
    std::vector<std::atomic<uint32_t>> ran(kTasks);
    std::atomic<int> early{0};
    RunSpec spec;
    spec.record_level = RecordLevel::kNone;
    spec.image = MakeTestGraph(tasks, {24}, [&](uint32_t task, const pto_context&) {
      for (const uint32_t before : tasks[task].after) {
        if (ran[before].load(std::memory_order_relaxed) != 1) ++early;
      }
      // Long enough to be worth another thread.
      const uint64_t until = Ticks() + static_cast<uint64_t>(10 * TicksPerMicrosecond());
      while (slow[task] != 0 && Ticks() < until) {
      }
      ran[task].fetch_add(1, std::memory_order_relaxed);
      return 0;
    });
    auto observer = std::make_shared<TestObserver>();
    spec.observer = observer;
    const std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Start(run, seed % 2 == 0 ? 0 : kLongNs);
    observer->WaitFinished();
    EXPECT_EQ(run->state(), RunState::kSucceeded) << "seed " << seed;
    EXPECT_EQ(run->counts().done, kTasks) << "seed " << seed;
    EXPECT_EQ(early, 0) << "seed " << seed;
    for (uint32_t i = 0; i < kTasks; ++i) EXPECT_EQ(ran[i], 1u) << "seed " << seed << " task " << i;
  }
}

}  // namespace
}  // namespace pto::engine

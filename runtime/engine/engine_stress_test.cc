#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/timer.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/engine_watch.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::EngineWatch;
using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::TestObserver;
using ::pto::engine::testing::TestTask;

const std::vector<uint32_t> kClusters = {1, 2, 24};

std::vector<TestTask> RandomTasks(std::mt19937& random, uint32_t count) {
  std::vector<TestTask> tasks(count);
  for (uint32_t i = 0; i < count; ++i) {
    tasks[i].chip = random() % 3;
    tasks[i].core = static_cast<pto_core>(1 + random() % 3);
    if (random() % 8 == 0) tasks[i].block_num = 1 + random() % 5;
    for (uint32_t d = random() % 4; i > 0 && d > 0; --d) {
      tasks[i].after.push_back(i - 1 - random() % std::min<uint32_t>(i, 20));
    }
  }
  return tasks;
}

class EngineStressTest : public ::testing::Test {
 protected:
  EngineStressTest() {
    Engine::Options options;
    options.chips = MakeTestChips(kClusters);
    options.timers = &timers_;
    options.executors = 4;
    engine_ = std::make_unique<Engine>(std::move(options));
    watch_ = std::make_unique<EngineWatch>(*engine_);
  }

  TimerQueue timers_{Clock::Real()};
  const TimerThread timer_thread_{timers_};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<EngineWatch> watch_;
};

// Every block of every task runs exactly once, after all its dependencies, on any worker.
TEST_F(EngineStressTest, RandomGraphsKeepTheirOrder) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const std::vector<TestTask> tasks = RandomTasks(random, 400);
    std::vector<std::atomic<uint32_t>> blocks(tasks.size());
    std::atomic<int> early{0};
    RunSpec spec;
    spec.image = MakeTestGraph(tasks, kClusters, [&](uint32_t task, const pto_context&) {
      for (const uint32_t before : tasks[task].after) {
        if (blocks[before].load() != tasks[before].block_num) ++early;
      }
      ++blocks[task];
      return 0;
    });
    auto observer = std::make_shared<TestObserver>();
    spec.observer = observer;
    std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Start(run, seed % 2 == 0 ? 0 : 1'000'000'000);
    observer->WaitFinished();
    EXPECT_EQ(run->state(), RunState::kSucceeded) << "seed " << seed;
    EXPECT_EQ(early, 0) << "seed " << seed;
    EXPECT_EQ(observer->records().size(), tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      EXPECT_EQ(blocks[i], tasks[i].block_num) << "seed " << seed << " task " << i;
    }
  }
}

// Runs that fail, are cancelled or end well, side by side, from several threads.
TEST_F(EngineStressTest, FailuresAndCancelsSideBySide) {
  std::mt19937 setup(1);
  const std::vector<TestTask> tasks = RandomTasks(setup, 100);
  const std::shared_ptr<const GraphImage> image =
      MakeTestGraph(tasks, kClusters, [](uint32_t task, const pto_context& context) {
        // The run's own scalars say which task is to fail.
        return static_cast<int64_t>(task) == context.scalars[0].i64 && context.block_index == 0 &&
                       task % 97 == 96
                   ? 1
                   : 0;
      });
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 200; ++i) {
        RunSpec spec;
        spec.image = image;
        auto observer = std::make_shared<TestObserver>();
        spec.observer = observer;
        std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
        engine_->Start(run, random() % 2 == 0 ? 0 : 50'000);
        const bool cancel = random() % 2 == 0;
        if (cancel) {
          engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
        }
        observer->WaitFinished();
        EXPECT_TRUE(run->state() == RunState::kFailed ||
                    (cancel && run->state() == RunState::kCancelled));
        const pto::engine::Run::Counts counts = run->counts();
        if (run->state() == RunState::kFailed && !cancel) {
          EXPECT_EQ(counts.done + counts.failed + counts.skipped, tasks.size());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The last run's observer is notified just before the run leaves the engine.
  watch_.reset();
  engine_.reset();
}

}  // namespace
}  // namespace pto::engine

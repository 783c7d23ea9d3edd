#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/timer.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/engine_watch.h"
#include "runtime/engine/testing/gang_recorder.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::EngineWatch;
using ::pto::engine::testing::GangRecorder;
using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::TestObserver;
using ::pto::engine::testing::TestTask;

constexpr uint64_t kFewer = kSanitized ? 20 : 1;

TestTask Blocks(pto_core kind, uint32_t blocks, bool sync_start, uint32_t chip = 0) {
  TestTask task;
  task.chip = chip;
  task.core = kind;
  task.block_num = blocks;
  task.sync_start = sync_start;
  return task;
}

// Launches graphs of tasks without dependencies from several threads at once, so that all of
// them want the cores at the same time.
class GangStressTest : public ::testing::Test {
 protected:
  void Launch(const std::vector<uint32_t>& clusters, const std::vector<TestTask>& tasks,
              uint64_t gangs, bool cancel = false) {
    GangRecorder recorder(clusters);
    const std::shared_ptr<const GraphImage> image =
        MakeTestGraph(tasks, clusters, [&](uint32_t task, const pto_context& context) {
          const bool whole_cluster = tasks[task].core == PTO_MIX && tasks[task].vector_kernels == 0;
          recorder.Enter(context, whole_cluster);
          if (task % 5 == 0) std::this_thread::yield();
          recorder.Leave(context, whole_cluster);
          return 0;
        });
    TimerQueue timers(Clock::Real());
    const TimerThread timer_thread(timers);
    Engine::Options options;
    options.chips = MakeTestChips(clusters);
    options.timers = &timers;
    options.executors = 3;
    options.trace = &recorder;
    auto engine = std::make_unique<Engine>(std::move(options));
    const EngineWatch watch(*engine);
    gangs = gangs / kFewer + 1;
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        while (recorder.gangs() < gangs && recorder.complaint().empty()) {
          RunSpec spec;
          spec.image = image;
          auto observer = std::make_shared<TestObserver>();
          spec.observer = observer;
          spec.record_level = RecordLevel::kNone;
          std::shared_ptr<pto::engine::Run> run = engine->Prepare(std::move(spec));
          recorder.Expect(*run);
          engine->Start(run, random() % 4 == 0 ? 100'000 : 0);
          if (cancel) {
            for (uint32_t i = random() % 20; i > 0; --i) std::this_thread::yield();
            engine->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
          } else {
            recorder.Queued(*run);
          }
          observer->WaitFinished();
          EXPECT_TRUE(cancel || run->state() == RunState::kSucceeded);
          recorder.Check(*run, !cancel);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(recorder.complaint(), "");
    EXPECT_GE(recorder.gangs(), gangs);
    EXPECT_LE(recorder.longest_wait(), 1u);
    EXPECT_TRUE(engine->WaitIdle(absl::Minutes(1)));
    for (uint32_t chip = 0; chip < clusters.size(); ++chip) {
      EXPECT_EQ(engine::testing::CoresLeftBusy(*engine, chip), 0u);
      EXPECT_EQ(engine->chip_use(chip).ready_tasks, 0u);
    }
  }

  static constexpr uint32_t c = 24;
  static constexpr uint32_t a = 48;
};

TEST_F(GangStressTest, SyncStart) {
  Launch({c},
         {Blocks(PTO_MIX, c / 12, true), Blocks(PTO_MIX, c / 3, true),
          Blocks(PTO_MIX, c / 12, false), Blocks(PTO_MIX, c / 2, true)},
         10'000);
}

TEST_F(GangStressTest, SyncStartOnVectorCores) {
  Launch({c},
         {Blocks(PTO_AIV, a / 12, true), Blocks(PTO_AIV, a / 3, true),
          Blocks(PTO_AIV, a / 12, false), Blocks(PTO_AIV, a / 2, true)},
         10'000);
}

// One block, as many as a third of the clusters, one more, all but one, and all.
TEST_F(GangStressTest, SyncStartAtTheEdges) {
  Launch({c},
         {Blocks(PTO_MIX, 1, true), Blocks(PTO_MIX, c / 3, true), Blocks(PTO_MIX, c / 3 + 1, true),
          Blocks(PTO_MIX, c - 1, true), Blocks(PTO_MIX, c, true), Blocks(PTO_MIX, c, false)},
         10'000);
}

TEST_F(GangStressTest, SyncStartStress) {
  std::vector<TestTask> tasks;
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 4; ++i) tasks.push_back(Blocks(PTO_MIX, c / 6, false));
    for (int i = 0; i < 2; ++i) tasks.push_back(Blocks(PTO_MIX, c / 2, true));
    for (int i = 0; i < 2; ++i) tasks.push_back(Blocks(PTO_AIV, c / 3, true));
    tasks.push_back(Blocks(PTO_AIV, c / 6, false));
  }
  Launch({c}, tasks, 6'000);
}

// Many tasks that are no gangs, and a few gangs among them.
TEST_F(GangStressTest, Starvation) {
  std::vector<TestTask> tasks;
  for (int wave = 0; wave < 2; ++wave) {
    for (int i = 0; i < 9; ++i) tasks.push_back(Blocks(PTO_MIX, 4, false));
    tasks.push_back(Blocks(PTO_MIX, 6, true));
  }
  Launch({8}, tasks, 4'000);
}

// What a graph of random groups over overlapping chips needs.
std::vector<TestTask> RandomGroups(const std::vector<uint32_t>& clusters, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TestTask> tasks(200);
  for (TestTask& task : tasks) {
    task.core = static_cast<pto_core>(PTO_AIC + random() % 3);
    std::vector<uint32_t> chips(clusters.size());
    for (uint32_t i = 0; i < chips.size(); ++i) chips[i] = i;
    std::shuffle(chips.begin(), chips.end(), random);
    chips.resize(1 + random() % chips.size());
    uint32_t widest = 100;
    for (const uint32_t chip : chips) {
      widest = std::min(widest, clusters[chip] * (task.core == PTO_AIV ? 2 : 1));
    }
    task.block_num = 1 + random() % widest;
    if (random() % 8 == 0) task.block_num = widest;
    if (task.core == PTO_MIX && random() % 4 == 0) task.vector_kernels = 1 + random() % 2;
    if (chips.size() > 1) {
      task.members = chips;
    } else {
      task.chip = chips[0];
      task.sync_start = random() % 4 == 0;
    }
  }
  return tasks;
}

TEST_F(GangStressTest, OverlappingGroups) {
  const std::vector<uint32_t> clusters = {3, 4, 2, 5};
  for (uint32_t seed = 0; seed < 5; ++seed) {
    Launch(clusters, RandomGroups(clusters, seed), 12'000);
  }
}

TEST_F(GangStressTest, CancelledGroupsLeaveNothingBehind) {
  const std::vector<uint32_t> clusters = {3, 4, 2, 5};
  Launch(clusters, RandomGroups(clusters, 99), 10'000, true);
}

}  // namespace
}  // namespace pto::engine

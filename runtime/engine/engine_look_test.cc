// Snapshots of an engine that works, and of one that does not continue.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/failpoint.h"
#include "runtime/engine/snapshot/diagnosis.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::engine::testing::TestTask;

constexpr int64_t kStall = 30'000'000'000;

// Looks at an engine all the time, in a thread of its own. No run that works may be called
// deadlocked.
class Looker {
 public:
  explicit Looker(Engine& engine)
      : thread_([this, &engine] {
          while (!stop_.load()) {
            const EngineNow now = engine.Look();
            const Diagnosis diagnosis(now);
            for (size_t i = 0; i < now.runs.size(); ++i) {
              EXPECT_NE(diagnosis.Explain(i, 0, kStall, 16).verdict, Verdict::kDeadlocked);
            }
            looked_.store(true);
            std::this_thread::yield();
          }
        }) {}
  ~Looker() {
    while (!looked_.load()) std::this_thread::yield();
    stop_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<bool> looked_{false};
  std::thread thread_;
};

// Calls it some times, however busy the machine is, and often if it is not.
void Repeat(const std::function<void(int i)>& what) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int i = 0; i < 300 && (i < 5 || std::chrono::steady_clock::now() < until); ++i) what(i);
}

// Runs of all kinds come and go. Nothing of what they own may be touched too late.
TEST(EngineLookTest, WhileRunsComeAndGo) {
  SlowEngine node({2}, 2);
  const KernelBody body = [&](uint32_t task, const pto_context& context) {
    const pto_signal signal = node.signal(task);
    if (task % 2 == 1) return context.api->notify(&context, &signal, PTO_ADD, 1);
    return int32_t{0};
  };
  const Looker looker(*node.engine);
  Repeat([&](int i) {
    auto run = node.Start({{},
                           {.after = {0}},
                           {.kernel = "wait", .word = 1, .scalars = {PTO_GE, i + 1, 0}},
                           {.after = {2}},
                           {.kernel = "notify", .after = {3}, .word = 9, .scalars = {PTO_ADD, 1}},
                           {.kernel = "wait", .word = 9, .scalars = {PTO_GE, i + 1, 0}}},
                          body);
    node.observer->WaitFinished();
    ASSERT_EQ(run->state(), RunState::kSucceeded);
  });
  node.ExpectClean();
}

// All vector cores of two chips with a cluster each.
TestTask Joint() {
  TestTask task;
  task.phases = 2;
  task.block_num = 2;
  task.members = {0, 1};
  return task;
}

TEST(EngineLookTest, WhileJointTasksComeAndGo) {
  TimerQueue timers(Clock::Real());
  Engine::Options options;
  options.chips = MakeTestChips({1, 1});
  options.timers = &timers;
  options.executors = 2;
  Engine engine(std::move(options));
  const Looker looker(engine);
  // Some follow from each other, others are ready at once.
  std::vector<TestTask> tasks(24, Joint());
  for (uint32_t i = 4; i < 16; ++i) tasks[i].after = {i - 4};
  // Large ones are shared.
  for (uint32_t i = 12; i < 16; ++i) tasks[i].phase_bytes = 1 << 20;
  const std::shared_ptr<const GraphImage> image =
      MakeTestGraph(tasks, {1, 1}, [](uint32_t, const pto_context&) { return 0; });
  Repeat([&](int) {
    RunSpec spec;
    spec.image = image;
    const std::shared_ptr<pto::engine::Run> run = engine.Prepare(std::move(spec));
    engine.Start(run);
    ASSERT_TRUE(engine.WaitIdle(absl::Seconds(50)));
    ASSERT_EQ(run->state(), RunState::kSucceeded);
  });
}

TEST(EngineLookTest, AJointTaskAndThoseThatFollowIt) {
  TimerQueue timers(Clock::Real());
  Engine::Options options;
  options.chips = MakeTestChips({1, 1});
  options.timers = &timers;
  Engine engine(std::move(options));
  std::vector<RunDiagnosis> well, stalled;
  const KernelBody look = [&](uint32_t, const pto_context& context) {
    if (context.member_index + context.block_index + context.phase > 0) return 0;
    const EngineNow now = engine.Look();
    well.push_back(Diagnosis(now).Explain(0, 0, kStall, 16));
    stalled.push_back(Diagnosis(now).Explain(0, kStall, kStall, 16));
    return 0;
  };
  RunSpec spec;
  spec.image = MakeTestGraph(std::vector<TestTask>(3, Joint()), {1, 1}, look);
  const std::shared_ptr<pto::engine::Run> run = engine.Prepare(std::move(spec));
  engine.Start(run);
  while (engine.RunOne()) {
  }
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ASSERT_EQ(well.size(), 3u);
  for (uint32_t task = 0; task < 3; ++task) {
    EXPECT_EQ(well[task].verdict, Verdict::kProgressing);
    // Which one has the cores, and how many come after it on them.
    ASSERT_EQ(well[task].obstacles.size(), task < 2 ? 1u : 0u);
    ASSERT_EQ(stalled[task].obstacles.size(), task < 2 ? 2u : 1u);
    EXPECT_EQ(stalled[task].verdict, Verdict::kStalled);
    EXPECT_EQ(stalled[task].obstacles.back().kind, Obstacle::Kind::kKernel);
    EXPECT_EQ(stalled[task].obstacles.back().task, task);
    if (task == 2) continue;
    const Obstacle& next = well[task].obstacles[0];
    EXPECT_EQ(next.kind, Obstacle::Kind::kCores);
    EXPECT_TRUE(next.follows);
    EXPECT_EQ(next.task, task + 1);
    EXPECT_EQ(next.count, 2 - task);
    ASSERT_EQ(next.peers.size(), 1u);
    EXPECT_EQ(next.peers[0].task, task);
  }
}

TEST(EngineLookTest, WhileASchedulerIsHeldWithItsLock) {
  if (!kHasFailpoints) GTEST_SKIP() << "this build has no failpoints";
  const std::string path = absl::StrCat(::testing::TempDir(), "/scheduler");
  std::remove(path.c_str());
  ASSERT_TRUE(failpoint::Set(absl::StrCat("engine.scheduler=hold:", path, "*1")).ok());
  const KernelBody nothing = [](uint32_t, const pto_context&) { return 0; };
  SlowEngine node({1}, 1);
  // Whatever fails here, nobody is held for ever.
  struct Release {
    ~Release() { std::ofstream(path) << "go"; }
    const std::string& path;
  } const release{path};
  auto run = node.Start({{}, {}}, nothing);
  while (failpoint::Hits("engine.scheduler") == 0) std::this_thread::yield();
  const auto before = std::chrono::steady_clock::now();
  const EngineNow now = node.engine->Look();
  ASSERT_EQ(now.runs.size(), 1u);
  EXPECT_TRUE(now.runs[0].steady);
  const RunDiagnosis found = Diagnosis(now).Explain(0, 2'000'000'000, kStall, 16);
  EXPECT_EQ(found.verdict, Verdict::kStalled);
  ASSERT_EQ(found.obstacles.size(), 1u);
  EXPECT_EQ(found.obstacles[0].kind, Obstacle::Kind::kThread);
  EXPECT_EQ(found.obstacles[0].count, 2u);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
  std::ofstream(path) << "go";
  node.observer->WaitFinished();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ASSERT_TRUE(failpoint::Set("").ok());
  std::remove(path.c_str());
  node.ExpectClean();
}

TEST(EngineLookTest, ADroppedNotificationIsADeadlock) {
  if (!kHasFailpoints) GTEST_SKIP() << "this build has no failpoints";
  ASSERT_TRUE(failpoint::Set("engine.notify=drop@1*1").ok());
  const KernelBody nothing = [](uint32_t, const pto_context&) { return 0; };
  SlowEngine node({1});
  auto run = node.Start({{.kernel = "notify", .word = 0, .scalars = {PTO_ADD, 1}},
                         {.kernel = "notify", .word = 1, .scalars = {PTO_ADD, 1}},
                         {.kernel = "wait", .word = 0, .scalars = {PTO_GE, 1, 0}},
                         {.kernel = "wait", .word = 1, .scalars = {PTO_GE, 1, 0}}},
                        nothing);
  node.RunAll();
  ASSERT_TRUE(failpoint::Set("").ok());
  ASSERT_EQ(run->state(), RunState::kRunning);
  const EngineNow now = node.engine->Look();
  const RunDiagnosis found = Diagnosis(now).Explain(0, 0, kStall, 16);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  ASSERT_EQ(found.obstacles.size(), 1u);
  EXPECT_EQ(found.obstacles[0].task, 3u);
  EXPECT_EQ(found.obstacles[0].element, 1u);
  ASSERT_EQ(found.obstacles[0].ended.size(), 1u);
  EXPECT_EQ(found.obstacles[0].ended[0].task, 1u);
  node.Notify(1, PTO_ADD, 1);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  node.ExpectClean();
}

}  // namespace
}  // namespace pto::engine

// Joint tasks that follow others on the same cores.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::CoresLeftBusy;
using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::PlansMade;
using ::pto::engine::testing::TestObserver;
using ::pto::engine::testing::TestTask;
using ::pto::testing::HasReason;

class EngineFollowTest : public ::testing::Test {
 protected:
  void MakeEngine(uint32_t executors) {
    Engine::Options options;
    options.chips = MakeTestChips(clusters_);
    options.timers = &timers_;
    options.executors = executors;
    engine_ = std::make_unique<Engine>(std::move(options));
  }
  std::shared_ptr<pto::engine::Run> Start(std::shared_ptr<const GraphImage> image,
                                          std::shared_ptr<RunObserver> observer = nullptr) {
    RunSpec spec;
    spec.image = std::move(image);
    spec.observer = std::move(observer);
    std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Start(run);
    return run;
  }
  void Finish() {
    while (engine_->executors() == 0 && engine_->RunOne()) {
    }
    ASSERT_TRUE(engine_->WaitIdle(absl::Seconds(60)));
    for (uint32_t chip = 0; chip < clusters_.size(); ++chip) {
      EXPECT_EQ(CoresLeftBusy(*engine_, chip), 0u);
    }
  }
  std::shared_ptr<const GraphImage> Graph(const std::vector<TestTask>& tasks, KernelBody body) {
    return MakeTestGraph(tasks, clusters_, std::move(body));
  }

  const std::vector<uint32_t> clusters_ = {1, 1};
  TimerQueue timers_{Clock::Real()};
  std::unique_ptr<Engine> engine_;
};

// All vector cores of both chips.
TestTask FullWidth() {
  TestTask task;
  task.phases = 1;
  task.block_num = 2;
  task.members = {0, 1};
  return task;
}

std::vector<TestTask> Chain(uint32_t length, TestTask each = FullWidth()) {
  std::vector<TestTask> tasks(length, each);
  for (uint32_t i = 1; i < length; ++i) tasks[i].after = {i - 1};
  return tasks;
}

TEST_F(EngineFollowTest, AChainIsDoneInOrderAndRecorded) {
  MakeEngine(0);
  std::vector<uint32_t> order;
  const auto observer = std::make_shared<TestObserver>();
  std::shared_ptr<pto::engine::Run> run =
      Start(Graph(Chain(300),
                  [&](uint32_t task, const pto_context& context) {
                    if (context.member_index + context.block_index == 0) order.push_back(task);
                    return 0;
                  }),
            observer);
  Finish();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ASSERT_EQ(order.size(), 300u);
  for (uint32_t i = 0; i < 300; ++i) EXPECT_EQ(order[i], i);
  const std::vector<TaskRecord> records = observer->records();
  ASSERT_EQ(records.size(), 300u);
  for (size_t i = 1; i < records.size(); ++i) {
    EXPECT_LE(records[i - 1].end_ns, records[i].end_ns);
    EXPECT_LE(records[i].start_ns, records[i].end_ns);
    // One begins when the one before has ended, not with the first.
    EXPECT_GE(records[i].start_ns, records[i - 1].start_ns);
  }
  EXPECT_GT(records.back().start_ns, records.front().start_ns);
}

// While others wait for the cores, a chain gives them back after each task. Then the order of gangs
// and other tasks holds, by which one gang may still go first.
TEST_F(EngineFollowTest, AChainLetsATaskGoFirstThatWaitsForItsCores) {
  MakeEngine(0);
  constexpr uint32_t kOther = 1000;
  TestTask other;
  other.number = kOther;
  std::vector<uint32_t> order;
  std::shared_ptr<const GraphImage> plain;
  const KernelBody body = [&](uint32_t task, const pto_context& context) {
    if (context.member_index + context.block_index > 0) return 0;
    order.push_back(task);
    if (task == 10) Start(plain);
    return 0;
  };
  plain = Graph({other}, body);
  Start(Graph(Chain(60), body));
  Finish();
  ASSERT_EQ(order.size(), 61u);
  EXPECT_THAT((std::vector<uint32_t>{order[11], order[12]}), ::testing::Contains(kOther));
}

TEST_F(EngineFollowTest, IndependentTasksAreAllDoneOnce) {
  for (const uint32_t executors : {0u, 1u, 3u}) {
    MakeEngine(executors);
    std::vector<std::atomic<uint32_t>> calls(500);
    std::shared_ptr<pto::engine::Run> run = Start(
        Graph(std::vector<TestTask>(500, FullWidth()), [&](uint32_t task, const pto_context&) {
          ++calls[task];
          return 0;
        }));
    Finish();
    EXPECT_EQ(run->state(), RunState::kSucceeded);
    for (const auto& count : calls) EXPECT_EQ(count.load(), 4u);
    engine_.reset();
  }
}

TEST_F(EngineFollowTest, AFailureAmongIndependentTasksStopsNoneOfTheOthers) {
  MakeEngine(2);
  std::shared_ptr<pto::engine::Run> run =
      Start(Graph(std::vector<TestTask>(200, FullWidth()),
                  [&](uint32_t task, const pto_context&) { return task == 50 ? 7 : 0; }));
  Finish();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().done, 199u);
  EXPECT_EQ(run->counts().failed, 1u);
}

TEST_F(EngineFollowTest, TasksThatWaitToFollowEndWithTheirRun) {
  for (const uint32_t executors : {0u, 2u}) {
    MakeEngine(executors);
    std::atomic<uint32_t> begun{0};
    std::shared_ptr<pto::engine::Run> run;
    std::atomic<bool> known{false};
    run = Start(Graph(std::vector<TestTask>(200, FullWidth()), [&](uint32_t, const pto_context&) {
      while (executors > 0 && !known) {
      }
      if (++begun == 41) {
        engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
      }
      return 0;
    }));
    known = true;
    Finish();
    EXPECT_EQ(run->state(), RunState::kCancelled);
    EXPECT_THAT(run->errors().at(0), HasReason(reason::kRunCancelled));
    EXPECT_LT(run->counts().done, 20u);
    engine_.reset();
  }
}

TEST_F(EngineFollowTest, OnlyCallsThatThePlanNamesAreMade) {
  MakeEngine(0);
  TestTask task = FullWidth();
  task.phases = 2;
  task.plan_calls = 3;
  std::vector<uint32_t> calls;
  Start(Graph({task}, [&](uint32_t, const pto_context& context) {
    calls.push_back(100 * context.phase + 10 * context.member_index + context.block_index);
    return 0;
  }));
  Finish();
  EXPECT_EQ(calls, (std::vector<uint32_t>{0, 1, 10, 100, 101, 110}));
}

TEST_F(EngineFollowTest, AFixedPlanIsMadeOnceForTheSameLaunch) {
  MakeEngine(0);
  const auto plans_of = [&](const std::vector<TestTask>& tasks) {
    const std::shared_ptr<const GraphImage> image =
        Graph(tasks, [](uint32_t, const pto_context&) { return 0; });
    const uint64_t before = PlansMade();
    std::shared_ptr<pto::engine::Run> run = Start(image);
    Finish();
    EXPECT_EQ(run->state(), RunState::kSucceeded);
    return PlansMade() - before;
  };
  TestTask task = FullWidth();
  task.number = 5;
  // It may depend on what is in memory.
  EXPECT_EQ(plans_of(Chain(20, task)), 20u);
  task.plan_fixed = true;
  EXPECT_EQ(plans_of(Chain(20, task)), 1u);
  std::vector<TestTask> with_another = Chain(20, task);
  with_another[10].number = 6;
  EXPECT_EQ(plans_of(with_another), 3u);
}

}  // namespace
}  // namespace pto::engine

#include "runtime/engine/engine.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::TestObserver;
using ::pto::engine::testing::TestTask;
using ::pto::testing::HasReason;

constexpr int64_t kLong = 3'600'000'000'000;

// An engine without executors: the test itself decides when a block runs.
class EngineTest : public ::testing::Test {
 protected:
  explicit EngineTest(std::vector<uint32_t> clusters = {2, 1}) : clusters_(std::move(clusters)) {
    Engine::Options options;
    options.chips = MakeTestChips(clusters_);
    options.clock = &clock_;
    options.timers = &timers_;
    engine_ = std::make_unique<Engine>(std::move(options));
  }

  std::shared_ptr<pto::engine::Run> Prepare(const std::vector<TestTask>& tasks,
                                            KernelBody body = nullptr, int64_t timeout_ns = 0) {
    if (body == nullptr) {
      body = [this](uint32_t task, const pto_context&) {
        order_.push_back(task);
        return 0;
      };
    }
    RunSpec spec;
    spec.image = MakeTestGraph(tasks, clusters_, std::move(body));
    spec.timeout_ns = timeout_ns;
    spec.observer = observer_;
    return engine_->Prepare(std::move(spec));
  }

  void RunAll() {
    while (engine_->RunOne()) {
    }
  }

  const std::vector<uint32_t> clusters_;
  ManualClock clock_;
  TimerQueue timers_{clock_};
  std::shared_ptr<TestObserver> observer_ = std::make_shared<TestObserver>();
  std::vector<uint32_t> order_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, RunsInOrderOfDependencies) {
  std::shared_ptr<pto::engine::Run> run = Prepare({{}, {{0}}, {{0}}, {{1, 2}}});
  engine_->Start(run);
  EXPECT_EQ(run->state(), RunState::kQueued);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ASSERT_EQ(order_.size(), 4u);
  EXPECT_EQ(order_.front(), 0u);
  EXPECT_EQ(order_.back(), 3u);
  EXPECT_EQ(run->counts().done, 4u);
  EXPECT_EQ(observer_->started, 1);
  EXPECT_EQ(observer_->finished, 1);
  EXPECT_EQ(observer_->records().size(), 4u);
  EXPECT_EQ(engine_->active_runs(), 0u);
}

TEST_F(EngineTest, HelpingFinishesWithoutExecutors) {
  std::shared_ptr<pto::engine::Run> run = Prepare({{}, {{0}, 1}, {{0}, 0, PTO_AIC, 3}, {{1, 2}}});
  engine_->Start(run, kLong);
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(order_.size(), 6u);
}

TEST_F(EngineTest, AnAcceptedRunWaitsForItsBeginning) {
  std::shared_ptr<pto::engine::Run> run = Prepare({{}, {{0}}});
  engine_->Accept(run);
  EXPECT_EQ(engine_->active_runs(), 1u);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kQueued);
  EXPECT_TRUE(order_.empty());
  engine_->Begin(run);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(order_.size(), 2u);
}

TEST_F(EngineTest, AnAcceptedRunEndsAtOnceWhenItIsStopped) {
  std::shared_ptr<pto::engine::Run> run = Prepare({{}});
  engine_->Accept(run);
  engine_->Stop(*run, RunState::kCancelled, absl::CancelledError("enough"));
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(observer_->finished, 1);
  EXPECT_EQ(engine_->active_runs(), 0u);
  engine_->Begin(run, kLong);
  RunAll();
  EXPECT_TRUE(order_.empty());
  EXPECT_EQ(observer_->finished, 1);
}

TEST_F(EngineTest, AnAcceptedRunsTimeIsUpBeforeItBegins) {
  std::shared_ptr<pto::engine::Run> run = Prepare({{}}, nullptr, 1'000'000);
  engine_->Accept(run);
  clock_.Advance(absl::Milliseconds(2));
  timers_.RunDue();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kRunDeadline));
  engine_->Begin(run);
  RunAll();
  EXPECT_TRUE(order_.empty());
}

TEST_F(EngineTest, BlocksGetTheirIndexAndACoreOfTheirKind) {
  std::set<uint32_t> blocks;
  std::shared_ptr<pto::engine::Run> run =
      Prepare({{{}, 0, PTO_AIV, 9}}, [&](uint32_t, const pto_context& context) {
        EXPECT_EQ(context.block_count, 9u);
        EXPECT_EQ(context.core_kind, static_cast<uint32_t>(PTO_AIV));
        EXPECT_GE(context.core, 2u);  // after the two cube cores
        EXPECT_LT(context.core, 6u);
        blocks.insert(context.block_index);
        return 0;
      });
  engine_->Start(run);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(blocks.size(), 9u);
  EXPECT_EQ(run->counts().done, 1u);
}

TEST_F(EngineTest, FailurePoisonsConsumersOnly) {
  // 0 fails; 1 and 3 hang on it, 2 and 4 do not.
  std::shared_ptr<pto::engine::Run> run =
      Prepare({{}, {{0}}, {}, {{1, 2}}, {{2}}}, [&](uint32_t task, const pto_context& context) {
        order_.push_back(task);
        if (task != 0) return 0;
        context.api->set_error(&context, "as asked");
        return 7;
      });
  engine_->Start(run);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(std::set<uint32_t>(order_.begin(), order_.end()), (std::set<uint32_t>{0, 2, 4}));
  EXPECT_EQ(run->counts().done, 2u);
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(run->counts().skipped, 2u);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kKernelFailed));
  EXPECT_NE(run->errors()[0].message().find("as asked"), absl::string_view::npos);
  std::map<uint32_t, TaskOutcome> outcomes;
  for (const TaskRecord& record : observer_->records()) outcomes[record.task] = record.outcome;
  EXPECT_EQ(outcomes[0], TaskOutcome::kFailed);
  EXPECT_EQ(outcomes[1], TaskOutcome::kSkipped);
  EXPECT_EQ(outcomes[3], TaskOutcome::kSkipped);
  EXPECT_EQ(outcomes.size(), 5u);
}

TEST_F(EngineTest, TheFirstErrorsAreListedAndTheOthersCanBeTaken) {
  std::vector<uint32_t> failed;
  std::shared_ptr<pto::engine::Run> run =
      Prepare(std::vector<TestTask>(20), [&](uint32_t task, const pto_context&) {
        failed.push_back(task);
        return 1;
      });
  engine_->Start(run);
  while (failed.size() < 19) ASSERT_TRUE(engine_->RunOne());
  EXPECT_EQ(run->errors().size(), 17u);
  EXPECT_EQ(run->counts().errors_unlisted, 2u);
  const std::vector<absl::Status> others = run->TakeUnlistedErrors();
  ASSERT_EQ(others.size(), 2u);
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_THAT(std::string(others[i].message()),
                ::testing::StartsWith(absl::StrCat("task ", failed[17 + i], ": ")));
  }
  EXPECT_TRUE(run->TakeUnlistedErrors().empty());
  // Why it was stopped is listed, too.
  engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
  RunAll();
  const std::vector<absl::Status> errors = run->errors();
  ASSERT_EQ(errors.size(), 18u);
  EXPECT_EQ(run->counts().errors_unlisted, 2u);
  EXPECT_EQ(run->state(), RunState::kCancelled);
  for (size_t i = 0; i < 17; ++i) {
    EXPECT_THAT(errors[i], HasReason(reason::kKernelFailed));
    EXPECT_THAT(std::string(errors[i].message()),
                ::testing::StartsWith(absl::StrCat("task ", failed[i], ": ")));
  }
  EXPECT_THAT(errors[17], HasReason(reason::kRunCancelled));
}

TEST_F(EngineTest, OneBadBlockFailsTheTask) {
  std::shared_ptr<pto::engine::Run> run =
      Prepare({{{}, 0, PTO_AIV, 4}, {{0}}}, [&](uint32_t task, const pto_context& context) {
        return task == 0 && context.block_index == 1 ? 3 : 0;
      });
  engine_->Start(run);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(run->counts().skipped, 1u);
}

TEST_F(EngineTest, AnExceptionIsTheTasksFailure) {
  std::shared_ptr<pto::engine::Run> run = Prepare(
      {{}}, [](uint32_t, const pto_context&) -> int32_t { throw std::runtime_error("oh no"); });
  engine_->Start(run);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kKernelThrew));
}

TEST_F(EngineTest, CancelBeforeTheStartRunsNothing) {
  std::shared_ptr<pto::engine::Run> run = Prepare({{}, {{0}}});
  engine_->Start(run);
  engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_TRUE(order_.empty());
  EXPECT_EQ(observer_->started, 0);
  EXPECT_EQ(observer_->finished, 1);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kRunCancelled));
  RunAll();
  EXPECT_TRUE(order_.empty());
}

TEST_F(EngineTest, CancelInTheMiddleStopsWhatFollows) {
  std::shared_ptr<pto::engine::Run> run;
  run = Prepare({{}, {{0}}, {{}, 0, PTO_AIC, 100}}, [&](uint32_t task, const pto_context& context) {
    order_.push_back(task);
    if (task == 0) {
      EXPECT_EQ(context.api->cancelled(&context), 0);
      engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
      EXPECT_NE(context.api->cancelled(&context), 0);
      EXPECT_EQ(run->state(), RunState::kCancelling);
    }
    return 0;
  });
  engine_->Start(run);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(std::count(order_.begin(), order_.end(), 1u), 0);
  EXPECT_EQ(engine_->chip_use(0).busy_cores, 0u);
  EXPECT_EQ(engine_->chip_use(0).ready_tasks, 0u);
}

TEST_F(EngineTest, AKernelThatIsCancelledIsNotDone) {
  std::shared_ptr<pto::engine::Run> run;
  run = Prepare({{}}, [&](uint32_t, const pto_context&) {
    engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "in the last task"));
    return 0;  // early, perhaps
  });
  engine_->Start(run);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(run->counts().done, 0u);
}

TEST_F(EngineTest, CancelAfterTheEndChangesNothing) {
  std::shared_ptr<pto::engine::Run> run = Prepare({{}});
  engine_->Start(run);
  RunAll();
  engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "too late"));
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_TRUE(run->errors().empty());
}

TEST_F(EngineTest, DeadlineFailsTheRun) {
  std::shared_ptr<pto::engine::Run> run = Prepare({{}, {{0}}}, nullptr, 1'000'000);
  engine_->Start(run);
  timers_.RunDue();
  EXPECT_EQ(run->state(), RunState::kQueued);
  clock_.Advance(absl::Milliseconds(1));
  timers_.RunDue();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kRunDeadline));
}

TEST_F(EngineTest, AFinishedRunLeavesNoTimer) {
  std::shared_ptr<pto::engine::Run> run = Prepare({{}}, nullptr, 1'000'000);
  engine_->Start(run);
  RunAll();
  EXPECT_EQ(timers_.RunDue(), -1);
}

// Counts the engine's runs when a run ends.
class CountingObserver final : public RunObserver {
 public:
  explicit CountingObserver(const Engine& engine) : engine_(engine) {}
  std::string name() const override { return "counts"; }
  void OnStarted(pto::engine::Run&) override {}
  void OnRecords(pto::engine::Run&, size_t) override {}
  void OnFinished(pto::engine::Run&, Completions&) override {
    left = engine_.CountIf([](const pto::engine::Run&) { return true; });
  }
  uint64_t left = 0;

 private:
  const Engine& engine_;
};

TEST_F(EngineTest, ARunWhoseEndIsToldCountsNoMore) {
  const auto observer = std::make_shared<CountingObserver>(*engine_);
  std::shared_ptr<pto::engine::Run> other = Prepare({{}});
  engine_->Accept(other);
  RunSpec spec;
  spec.image = MakeTestGraph({{}}, clusters_, [](uint32_t, const pto_context&) { return 0; });
  spec.observer = observer;
  engine_->Start(engine_->Prepare(std::move(spec)));
  RunAll();
  EXPECT_EQ(observer->left, 1u);  // the other one
  engine_->Stop(*other, RunState::kCancelled, absl::CancelledError("enough"));
}

TEST_F(EngineTest, StopIfSelects) {
  std::shared_ptr<pto::engine::Run> on_0 = Prepare({{{}, 0}});
  engine_->Start(on_0);
  std::shared_ptr<pto::engine::Run> on_1 = Prepare({{{}, 1}});
  engine_->Start(on_1);
  engine_->StopIf([](const pto::engine::Run& run) { return run.image().chips()[0] == 1; },
                  RunState::kFailed, Error(reason::kChipReset, "chips/1 is reset"));
  EXPECT_EQ(on_0->state(), RunState::kQueued);
  EXPECT_EQ(on_1->state(), RunState::kFailed);
  RunAll();
  EXPECT_EQ(on_0->state(), RunState::kSucceeded);
}

TEST_F(EngineTest, RunsTakeTurns) {
  std::vector<int> turns;
  auto body = [&](uint32_t task, const pto_context&) {
    turns.push_back(static_cast<int>(task));
    return 0;
  };
  // Independent tasks 0 to 4 of one run, then one run of a single task.
  std::shared_ptr<pto::engine::Run> large = Prepare({{}, {}, {}, {}, {}}, body);
  engine_->Start(large);
  std::shared_ptr<pto::engine::Run> small = Prepare({{}}, body);
  engine_->Start(small);
  ASSERT_TRUE(engine_->RunOne());
  ASSERT_TRUE(engine_->RunOne());
  EXPECT_TRUE(IsFinal(small->state()));
  EXPECT_FALSE(IsFinal(large->state()));
}

// A chain that could run forever on its core lets other tasks have the thread, on any chip.
TEST_F(EngineTest, AChainLetsOthersHaveTheirTurn) {
  std::vector<TestTask> chain(1000);
  for (uint32_t i = 1; i < chain.size(); ++i) chain[i].after = {i - 1};
  const auto body = [](uint32_t, const pto_context&) { return 0; };
  std::shared_ptr<pto::engine::Run> large = Prepare(chain, body);
  engine_->Start(large);
  std::shared_ptr<pto::engine::Run> small = Prepare({{{}, 1}}, body);
  engine_->Start(small);
  ASSERT_TRUE(engine_->RunOne());
  EXPECT_FALSE(IsFinal(large->state()));
  RunAll();
  EXPECT_EQ(large->state(), RunState::kSucceeded);
  EXPECT_EQ(small->state(), RunState::kSucceeded);
}

TEST_F(EngineTest, ALongChainDoesNotRecurse) {
  std::vector<TestTask> tasks(200'000);
  for (uint32_t i = 1; i < tasks.size(); ++i) tasks[i].after = {i - 1};
  uint32_t count = 0;
  std::shared_ptr<pto::engine::Run> run = Prepare(tasks, [&](uint32_t, const pto_context&) {
    return ++count == 1000 ? 1 : 0;  // the rest is skipped one after the other
  });
  engine_->Start(run);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().skipped, 200'000u - 1000);
}

TEST_F(EngineTest, RecordLevels) {
  for (const RecordLevel level : {RecordLevel::kNone, RecordLevel::kFailed, RecordLevel::kAll}) {
    observer_ = std::make_shared<TestObserver>();
    RunSpec spec;
    spec.image = MakeTestGraph({{}, {{0}}, {{1}}}, clusters_,
                               [](uint32_t task, const pto_context&) { return task == 1; });
    spec.record_level = level;
    spec.observer = observer_;
    engine_->Start(engine_->Prepare(std::move(spec)));
    RunAll();
    EXPECT_EQ(observer_->records().size(),
              static_cast<size_t>(level == RecordLevel::kNone     ? 0
                                  : level == RecordLevel::kFailed ? 2
                                                                  : 3));
  }
}

// A mix of kinds on the smallest chip: a MIX task needs the whole cluster.
TEST(EngineCoresTest, MixTakesTheWholeCluster) {
  const std::vector<uint32_t> clusters = {1};
  Engine::Options options;
  options.chips = MakeTestChips(clusters);
  Engine engine(std::move(options));
  RunSpec spec;
  Engine* the_engine = &engine;
  bool inner = false;
  spec.image = MakeTestGraph({{{}, 0, PTO_MIX}, {{}, 0, PTO_AIV}, {{}, 0, PTO_AIC}}, clusters,
                             [&](uint32_t task, const pto_context& context) {
                               if (task == 0) {
                                 EXPECT_EQ(context.core, 0u);
                                 EXPECT_EQ(the_engine->chip_use(0).busy_cores, 3u);
                                 inner = the_engine->RunOne();  // there is no core for another
                               }
                               return 0;
                             });
  std::shared_ptr<pto::engine::Run> run = engine.Prepare(std::move(spec));
  engine.Start(run);
  while (engine.RunOne()) {
  }
  EXPECT_FALSE(inner);
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(engine.chip_use(0).busy_cores, 0u);
}

}  // namespace
}  // namespace pto::engine

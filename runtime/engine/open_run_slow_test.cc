// Open runs with tasks that are more than calls of plain kernels, in segments that wait for each
// other.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/open_run.h"
#include "runtime/engine/testing/open_run_testing.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::OpenRunWatcher;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowKernels;
using ::pto::engine::testing::SlowTask;
using ::pto::testing::HasReason;

ScalarInput Integer(int64_t value) {
  ScalarInput scalar;
  scalar.kind = ScalarInput::Kind::kInteger;
  scalar.i64 = value;
  return scalar;
}

class OpenRunSlowTest : public ::testing::Test {
 protected:
  explicit OpenRunSlowTest(uint32_t executors = 0) : node_({2}, executors) { Make({}); }

  // Begins anew.
  void Make(OpenRun::Options options) {
    GraphTarget target;
    target.kernels = &SlowKernels();
    target.chip_clusters = node_.clusters;
    graph_ = std::make_unique<OpenGraph>(target);
    kernels_.clear();
    words_.clear();
    const uint32_t slot = graph_->AddSlot("words");
    const uint32_t one = graph_->AddLayout(PTO_I64, {}, {}).value();
    const uint32_t all = graph_->AddLayout(PTO_I64, {SlowEngine::kWords}, {}).value();
    for (uint32_t i = 0; i < SlowEngine::kWords; ++i) {
      words_.push_back(graph_->AddTensor(slot, one, i).value());
      *node_.word(i) = 0;
    }
    all_ = graph_->AddTensor(slot, all, 0).value();
    watcher_ = std::make_shared<OpenRunWatcher>();
    options.engine = node_.engine.get();
    options.observer = watcher_;
    run_ = OpenRun::Make(std::move(options));
  }

  // Returns the task's number, which its body gets.
  uint32_t Add(const SlowTask& task) {
    const auto [kernel, is_new] = kernels_.try_emplace(task.kernel, 0);
    if (is_new) kernel->second = graph_->AddKernel(task.kernel).value();
    TaskInput input;
    input.kernel = kernel->second;
    std::vector<uint32_t> args;
    std::vector<ScalarInput> scalars;
    if (task.kernel == "plain" || task.kernel == "waits" || task.kernel == "blocks") {
      args = {all_};
      scalars = {Integer(graph_->task_count()), Integer(reinterpret_cast<int64_t>(&body_))};
    } else if (task.kernel != "join") {
      args = {words_[task.word]};
      for (const int64_t scalar : task.scalars) scalars.push_back(Integer(scalar));
    }
    input.args = args;
    input.scalars = scalars;
    input.dependencies = task.after;
    input.block_num = task.block_num;
    input.require_sync_start = task.together;
    input.timeout_ns = task.timeout_ns;
    if (task.predicate.has_value()) {
      input.predicate =
          PredicateInput{words_[task.predicate->word],
                         static_cast<uint32_t>(task.predicate->compare), task.predicate->value};
    }
    return graph_->AddTask(input).value();
  }
  void Cut() {
    const GraphSegment segment = graph_->Cut().value();
    // Joins alone use no words.
    run_->Append(segment, segment.slots.empty() ? nullptr : node_.slots());
    graph_->ForgetBefore(run_->ended_before());
  }
  // A segment of its own.
  uint32_t Append(const SlowTask& task) {
    const uint32_t number = Add(task);
    Cut();
    return number;
  }

  // The tasks that ended, as the records say.
  std::vector<uint32_t> Ended() {
    std::vector<uint32_t> tasks;
    for (const auto& [task, outcome] : Outcomes()) tasks.push_back(task);
    return tasks;
  }
  std::vector<std::pair<uint32_t, TaskOutcome>> Outcomes() {
    for (const auto& outcome : engine::testing::TakeOutcomes(*run_)) outcomes_.push_back(outcome);
    std::sort(outcomes_.begin(), outcomes_.end());
    return outcomes_;
  }

  KernelBody body_ = [](uint32_t, const pto_context&) { return 0; };
  SlowEngine node_;
  std::vector<std::pair<uint32_t, TaskOutcome>> outcomes_;
  std::unique_ptr<OpenGraph> graph_;
  std::map<std::string, uint32_t> kernels_;
  uint32_t all_ = 0;
  std::vector<uint32_t> words_;
  std::shared_ptr<OpenRunWatcher> watcher_;
  std::shared_ptr<OpenRun> run_;
};

// Rounds of tasks of all kinds, on executors, each round in two segments behind the one before.
class OpenRunSlowRoundsTest : public OpenRunSlowTest {
 protected:
  static constexpr uint32_t kOfRound = 7;

  OpenRunSlowRoundsTest() : OpenRunSlowTest(2) {
    body_ = [this](uint32_t task, const pto_context& context) { return Call(task, context); };
  }

  void AddRound(uint32_t round) {
    const int64_t value = round + 1;
    const std::vector<uint32_t> before =
        round == 0 ? std::vector<uint32_t>{} : std::vector<uint32_t>{round * kOfRound - 1};
    const uint32_t begin = Add({.after = before});
    const uint32_t defers = Add({.after = {begin}});
    const uint32_t waits = Add({.kernel = round % 8 == 0 ? "blocks" : "waits", .after = {begin}});
    Cut();
    const uint32_t wait =
        Add({.kernel = "wait", .after = before, .word = 1, .scalars = {PTO_EQ, value, 0}});
    const uint32_t notify =
        Add({.kernel = "notify", .after = {wait}, .word = 0, .scalars = {PTO_SET, value}});
    const uint32_t passed = Add({.after = {begin}, .predicate = SlowTask::Predicate{2, PTO_NE, 0}});
    Add({.after = {defers, waits, notify, passed}, .block_num = 1 + round % 4, .together = true});
    Cut();
  }

  int32_t Call(uint32_t task, const pto_context& context) {
    const uint32_t round = task / kOfRound;
    const int64_t value = round + 1;
    const pto_signal first = node_.signal(0);
    const pto_signal second = node_.signal(1);
    switch (task % kOfRound) {
      case 0:
        if (begun_.exchange(round + 1) != round && round > 0) ++out_of_order_;
        return context.api->notify(&context, &second, PTO_SET, value);
      case 1:
        return context.api->defer(&context, &first, PTO_EQ, value, 0);
      case 2:
        return context.api->wait(&context, &first, PTO_EQ, value, 0);
      case 6:
        if (begun_ != round + 1) ++out_of_order_;
        return 0;
      default:
        ++out_of_order_;  // others are never called
        return 0;
    }
  }

  std::atomic<uint32_t> begun_{0};  // rounds
  std::atomic<uint32_t> out_of_order_{0};
};

// Each of them is once a free root and once behind a task of an earlier segment.
TEST_F(OpenRunSlowTest, SpecialTasksWaitForEarlierSegmentsAndAreWaitedFor) {
  std::vector<uint32_t> order;
  uint32_t deferred = 0;
  body_ = [&](uint32_t task, const pto_context& context) -> int32_t {
    order.push_back(task);
    if (task != deferred) return 0;
    const pto_signal signal = node_.signal(1);
    return context.api->defer(&context, &signal, PTO_EQ, 1, 0);
  };
  const uint32_t wait = Append({.kernel = "wait", .word = 0, .scalars = {PTO_EQ, 5, 0}});
  deferred = Append({.after = {wait}});
  const uint32_t gang = Append({.after = {deferred}, .block_num = 3, .together = true});
  const uint32_t passed = Append({.after = {gang}, .predicate = SlowTask::Predicate{2, PTO_EQ, 1}});
  const uint32_t last = Append({.after = {passed}});
  node_.RunAll();
  EXPECT_TRUE(order.empty());
  EXPECT_EQ(node_.engine->waiting(), 1u);

  // Comes last, and needs no core.
  const uint32_t notify = Append({.kernel = "notify", .word = 0, .scalars = {PTO_SET, 5}});
  node_.RunAll();
  EXPECT_EQ(order, std::vector<uint32_t>{deferred});
  EXPECT_EQ(Ended(), (std::vector<uint32_t>{wait, notify}));
  EXPECT_EQ(run_->live_tasks(), 4u);

  node_.Notify(1, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(order, (std::vector<uint32_t>{deferred, gang, gang, gang, last}));
  run_->Close();
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  EXPECT_EQ(run_->counts().done, 6u);
  EXPECT_EQ(run_->kept_segments(), 0u);
  const std::vector<std::pair<uint32_t, TaskOutcome>> outcomes = Outcomes();
  ASSERT_EQ(outcomes.size(), 6u);
  EXPECT_EQ(outcomes[passed].second, TaskOutcome::kPassedOver);
  EXPECT_EQ(outcomes[last].second, TaskOutcome::kDone);
  node_.ExpectClean();
}

TEST_F(OpenRunSlowTest, ASegmentThatIsPassedOverAtOnceLetsLaterOnesGoOn) {
  std::vector<uint32_t> order;
  body_ = [&](uint32_t task, const pto_context&) {
    order.push_back(task);
    return 0;
  };
  // Nothing but appending happens: the first one ends while it begins.
  const SlowTask::Predicate never{0, PTO_EQ, 1};
  const uint32_t passed = Append({.predicate = never});
  EXPECT_EQ(run_->live_tasks(), 0u);
  const uint32_t holds = Add({.after = {passed}, .predicate = SlowTask::Predicate{0, PTO_EQ, 0}});
  Add({.kernel = "join", .after = {holds}});
  Cut();
  // All of a chain is passed over when its first task is.
  uint32_t before = holds;
  for (int i = 0; i < 5000; ++i) before = Append({.after = {before}, .predicate = never});
  const uint32_t last = Append({.after = {before}});
  node_.RunAll();
  run_->Close();
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  EXPECT_EQ(order, (std::vector<uint32_t>{holds, last}));
  node_.ExpectClean();
}

TEST_F(OpenRunSlowTest, SegmentsHaveTheTimesOfTheRun) {
  OpenRun::Options options;
  options.task_timeout_ns = 1000;
  options.priority = Priority::kHigh;
  Make(options);
  body_ = [&](uint32_t task, const pto_context& context) -> int32_t {
    const pto_signal signal = node_.signal(0);
    return task == 1 ? context.api->wait(&context, &signal, PTO_EQ, 1, 0) : 0;
  };
  Append({});
  Append({.kernel = "waits", .after = {0}});  // for ever
  Append({.after = {1}});
  Append({.kernel = "waits", .after = {0}});
  node_.RunAll();
  EXPECT_EQ(Ended(), (std::vector<uint32_t>{0, 3}));
  node_.clock.Advance(absl::Nanoseconds(1000));
  node_.timers.RunDue();
  node_.RunAll();
  run_->Close();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  EXPECT_EQ(run_->counts().failed, 1u);
  EXPECT_EQ(run_->counts().skipped, 1u);
  ASSERT_EQ(run_->errors().size(), 1u);
  EXPECT_THAT(run_->errors()[0], HasReason(reason::kTaskDeadline));
  node_.ExpectClean();
}

TEST_F(OpenRunSlowTest, CancelEndsAllThatWaits) {
  const auto waits = [&](const pto_context& context) {
    const pto_signal signal = node_.signal(0);
    return context.api->wait(&context, &signal, PTO_EQ, 1, 0);
  };
  const auto defers = [&](const pto_context& context) {
    const pto_signal signal = node_.signal(0);
    return context.api->defer(&context, &signal, PTO_EQ, 1, 0);
  };
  std::vector<uint32_t> called;
  body_ = [&](uint32_t task, const pto_context& context) -> int32_t {
    called.push_back(task);
    return task == 1 ? waits(context) : task == 2 ? defers(context) : 0;
  };
  Append({.kernel = "wait", .scalars = {PTO_EQ, 1, 0}});
  Append({.kernel = "waits"});
  Append({});
  node_.RunAll();
  EXPECT_EQ(called, (std::vector<uint32_t>{1, 2}));
  // One core is taken, so this one waits for all of them, and others behind it.
  const uint32_t gang = Append({.block_num = 4, .together = true});
  Append({.after = {0, 1, 2, gang}});
  Append({.kernel = "join", .after = {0}});
  Append({.after = {1}, .predicate = SlowTask::Predicate{0, PTO_EQ, 0}});
  Append({.after = {2}, .block_num = 4, .together = true, .timeout_ns = 5});
  node_.RunAll();
  EXPECT_EQ(node_.engine->waiting(), 3u);
  EXPECT_EQ(node_.engine->chip_use(0).ready_tasks, 1u);

  run_->Stop(RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
  Append({.kernel = "join"});  // comes too late
  node_.RunAll();
  EXPECT_EQ(run_->state(), RunState::kCancelled);
  EXPECT_EQ(watcher_->finished(), 1);
  EXPECT_EQ(run_->live_tasks(), 0u);
  EXPECT_EQ(run_->counts().done, 0u);
  EXPECT_EQ(called, (std::vector<uint32_t>{1, 2}));
  ASSERT_EQ(run_->errors().size(), 1u);
  EXPECT_THAT(run_->errors()[0], HasReason(reason::kRunCancelled));
  node_.ExpectClean();
}

TEST_F(OpenRunSlowRoundsTest, RoundsOfAllKindsEndInOrder) {
  constexpr uint32_t kRounds = 300;
  for (uint32_t i = 0; i < kRounds; ++i) AddRound(i);
  run_->Close();
  watcher_->WaitFinished();
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  EXPECT_EQ(run_->counts().done, kRounds * kOfRound);
  EXPECT_EQ(out_of_order_, 0u);
  EXPECT_EQ(engine::testing::TakeOutcomes(*run_).size(), kRounds * kOfRound);
  EXPECT_TRUE(node_.engine->WaitIdle(absl::Seconds(10)));
  node_.ExpectClean();
}

TEST_F(OpenRunSlowRoundsTest, CancelAtAnyTimeEndsTheRunOnce) {
  for (uint32_t calls = 1; calls <= 60; ++calls) {
    std::atomic<uint32_t> left{calls};
    body_ = [&](uint32_t task, const pto_context& context) {
      if (--left == 0) {
        run_->Stop(RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
      }
      return Call(task, context);
    };
    for (uint32_t i = 0; !IsFinal(run_->state()); ++i) {
      AddRound(i);
      watcher_->WaitUntil([&] { return run_->live_tasks() < 20 * kOfRound; });
    }
    watcher_->WaitFinished();
    EXPECT_EQ(run_->state(), RunState::kCancelled);
    EXPECT_EQ(run_->errors().size(), 1u);
    EXPECT_EQ(run_->live_tasks(), 0u);
    EXPECT_TRUE(node_.engine->WaitIdle(absl::Seconds(10)));
    EXPECT_EQ(watcher_->finished(), 1);
    EXPECT_EQ(out_of_order_, 0u);
    node_.ExpectClean();
    Make({});
  }
}

}  // namespace
}  // namespace pto::engine

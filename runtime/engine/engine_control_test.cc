// Tasks without a kernel and without a core, and predicates.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "runtime/base/status_matchers.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::testing::HasReason;

class EngineControlTest : public ::testing::Test {
 protected:
  EngineControlTest() {
    body_ = [this](uint32_t task, const pto_context&) {
      order_.push_back(task);
      return 0;
    };
  }

  SlowEngine node_{{1, 1}};
  std::vector<uint32_t> order_;
  KernelBody body_;
};

TEST_F(EngineControlTest, JoinsNeedNoCore) {
  std::vector<SlowTask> tasks(10'000);
  tasks[0].kernel = "join";
  for (uint32_t i = 1; i < tasks.size(); ++i) {
    tasks[i].kernel = "join";
    tasks[i].after = {i - 1};
  }
  tasks.push_back({.after = {9'999}});
  std::shared_ptr<pto::engine::Run> run = node_.Start(tasks, body_);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(run->counts().done, tasks.size());
  EXPECT_EQ(order_, std::vector<uint32_t>{10'000});
  EXPECT_EQ(node_.observer->records().size(), tasks.size());
  node_.ExpectClean();
}

TEST_F(EngineControlTest, AHelperDoesThemToo) {
  node_.help_ns = 1'000'000'000;
  const std::vector<SlowTask> tasks = {{.kernel = "join"},
                                       {.after = {0}},
                                       {.kernel = "notify", .after = {1}, .scalars = {PTO_SET, 5}},
                                       {.kernel = "wait", .after = {2}, .scalars = {PTO_EQ, 5, 0}}};
  std::shared_ptr<pto::engine::Run> run = node_.Start(tasks, body_);
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(*node_.word(0), 5);
}

TEST_F(EngineControlTest, AWaitEndsWithItsSignal) {
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "wait", .word = 3, .scalars = {PTO_GT, 1, 0}},
                   {.after = {0}},
                   {.kernel = "notify", .word = 3, .scalars = {PTO_ADD, 1}},
                   {.after = {2}}},
                  body_);
  node_.RunAll();
  EXPECT_EQ(order_, std::vector<uint32_t>{3});
  EXPECT_EQ(run->state(), RunState::kRunning);
  EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 0u);
  node_.Notify(3, PTO_ADD, 1);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(order_, (std::vector<uint32_t>{3, 1}));
  node_.ExpectClean();
}

TEST_F(EngineControlTest, AWaitOverItsTimeSaysWhatItHadAndWanted) {
  std::shared_ptr<pto::engine::Run> run = node_.Start(
      {{.kernel = "wait", .word = 3, .scalars = {PTO_GE, 4, 1'000'000}}, {.after = {0}}, {}},
      body_);
  node_.Notify(3, PTO_SET, 2);
  node_.RunAll();
  node_.clock.Advance(absl::Milliseconds(1));
  node_.timers.RunDue();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(run->counts().skipped, 1u);
  EXPECT_EQ(run->counts().done, 1u);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kWaitTimeout));
  EXPECT_EQ(run->errors()[0].message(),
            "task 0: block 0 waited for 'words'[3] >= 4, had 2 after 1ms");
  node_.ExpectClean();
}

TEST_F(EngineControlTest, TheRunsLimitForWaitsHoldsForThoseWithoutOne) {
  RunSpec spec;
  spec.wait_timeout_ns = 1000;
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "wait", .scalars = {PTO_EQ, 1, 0}}}, body_, spec);
  node_.RunAll();
  node_.clock.Advance(absl::Microseconds(1));
  node_.timers.RunDue();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kWaitTimeout));
}

// The builder refuses them in a graph; a launch may bind others.
TEST_F(EngineControlTest, ScalarsThatMakeNoSenseFailTheTask) {
  RunSpec spec;
  spec.named_scalars = {3, 0, 0, 0, 0, PTO_EQ, 1, static_cast<uint64_t>(-1)};
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "notify", .scalars = {PTO_SET, 0}},
                   {.kernel = "wait", .scalars = {PTO_EQ, 0, 0}},
                   {.kernel = "wait", .scalars = {PTO_EQ, 1, 0}}},
                  body_, spec);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  ASSERT_EQ(run->errors().size(), 3u);
  for (const absl::Status& error : run->errors()) {
    EXPECT_THAT(error, HasReason(reason::kScalarInvalid));
  }
  node_.ExpectClean();
}

TEST_F(EngineControlTest, CopiesAreDone) {
  for (uint32_t i = 0; i < 8; ++i) *node_.word(i) = i;
  std::shared_ptr<pto::engine::Run> run = node_.Start(
      {{.kernel = "copy_async", .from = 0, .to = 8, .count = 8}, {.after = {0}}}, body_);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(*node_.word(8 + i), i);
  node_.ExpectClean();
}

TEST_F(EngineControlTest, CancelEndsWaitsAndCopies) {
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "wait", .scalars = {PTO_EQ, 1, 1000}},
                   {.kernel = "copy_async", .from = 0, .to = 8, .count = 8},
                   {.kernel = "join"},
                   {.after = {0}}},
                  body_);
  ASSERT_TRUE(node_.engine->RunOne());
  ASSERT_TRUE(node_.engine->RunOne());
  node_.Cancel(*run);
  // Nobody else is needed for it.
  EXPECT_EQ(run->state(), RunState::kCancelled);
  node_.ExpectClean();
}

TEST_F(EngineControlTest, APredicateDecidesWhenAllBeforeHasEnded) {
  // Task 0 writes the word that the others look at.
  body_ = [this](uint32_t task, const pto_context&) {
    if (task == 0) *node_.word(1) = 7;
    order_.push_back(task);
    return 0;
  };
  const auto predicate = [](pto_compare compare, int64_t value) {
    return SlowTask::Predicate{1, compare, value};
  };
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{},
                   {.after = {0}, .predicate = predicate(PTO_EQ, 7)},
                   {.after = {0}, .predicate = predicate(PTO_LT, 7)},
                   {.after = {2}},
                   {.kernel = "wait",
                    .after = {2},
                    .scalars = {PTO_EQ, 99, 0},
                    .predicate = predicate(PTO_NE, 7)},
                   {.after = {4}, .chip = 1, .predicate = predicate(PTO_GE, 8)},
                   {.after = {5}, .chip = 1}},
                  body_);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(std::set<uint32_t>(order_.begin(), order_.end()), (std::set<uint32_t>{0, 1, 3, 6}));
  EXPECT_EQ(run->counts().done, 7u);
  EXPECT_EQ(run->counts().passed_over, 3u);
  std::map<uint32_t, TaskOutcome> outcomes;
  for (const TaskRecord& record : node_.observer->records()) {
    outcomes[record.task] = record.outcome;
  }
  EXPECT_EQ(outcomes.size(), 7u);
  EXPECT_EQ(outcomes[1], TaskOutcome::kDone);
  EXPECT_EQ(outcomes[2], TaskOutcome::kPassedOver);
  EXPECT_EQ(outcomes[5], TaskOutcome::kPassedOver);
  node_.ExpectClean();
}

TEST_F(EngineControlTest, ARunMayPassOverAllOfItself) {
  std::shared_ptr<pto::engine::Run> run = node_.Start(
      {{.predicate = SlowTask::Predicate{0, PTO_GT, 0}},
       {.kernel = "join", .after = {0}, .predicate = SlowTask::Predicate{0, PTO_GT, 0}}},
      body_);
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(run->counts().passed_over, 2u);
  node_.ExpectClean();
}

}  // namespace
}  // namespace pto::engine

#include "runtime/engine/run/run_outcome.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace pto::engine {
namespace {

TEST(RunOutcomeTest, SucceedsWhenAllTasksAreDone) {
  RunOutcome outcome;
  EXPECT_EQ(outcome.state(), RunState::kQueued);
  EXPECT_TRUE(outcome.Start(5));
  EXPECT_FALSE(outcome.Start(6));
  EXPECT_EQ(outcome.started_ns(), 5);
  EXPECT_EQ(outcome.state(), RunState::kRunning);
  outcome.AddDone(2);
  outcome.AddPassedOver();
  EXPECT_EQ(outcome.End(2, 9), RunState::kSucceeded);
  EXPECT_EQ(outcome.state(), RunState::kSucceeded);
  EXPECT_EQ(outcome.ended_ns(), 9);
  EXPECT_EQ(outcome.counts().done, 2u);
  EXPECT_EQ(outcome.counts().passed_over, 1u);
}

TEST(RunOutcomeTest, FailsWhenATaskIsNotDone) {
  RunOutcome outcome;
  outcome.Start(5);
  outcome.AddDone(1);
  outcome.AddFailed();
  outcome.AddSkipped();
  outcome.AddError(absl::InternalError("broken"));
  EXPECT_EQ(outcome.End(3, 9), RunState::kFailed);
  EXPECT_EQ(outcome.counts().failed, 1u);
  EXPECT_EQ(outcome.counts().skipped, 1u);
  ASSERT_EQ(outcome.errors().size(), 1u);
  EXPECT_EQ(outcome.errors()[0].message(), "broken");
  EXPECT_TRUE(outcome.stop_error().ok());
}

TEST(RunOutcomeTest, EndsAsTheFirstStopSays) {
  RunOutcome outcome;
  outcome.Start(5);
  outcome.AddError(absl::InternalError("broken"));
  outcome.Stop(RunState::kCancelled, absl::CancelledError("enough"));
  outcome.Stop(RunState::kFailed, absl::InternalError("too late"));
  EXPECT_TRUE(outcome.stopping());
  EXPECT_TRUE(outcome.stop_flag()->load());
  EXPECT_EQ(outcome.state(), RunState::kCancelling);
  EXPECT_EQ(outcome.stop_error().message(), "enough");
  EXPECT_EQ(outcome.End(1, 9), RunState::kCancelled);
}

TEST(RunOutcomeTest, AStopThatComesTooLateChangesNothing) {
  RunOutcome outcome;
  outcome.Start(5);
  outcome.AddDone(1);
  outcome.Stop(RunState::kCancelled, absl::CancelledError("enough"));
  EXPECT_EQ(outcome.End(1, 9), RunState::kSucceeded);
  EXPECT_TRUE(outcome.errors().empty());
}

TEST(RunOutcomeTest, TheStopSaysOnceWhereItMetATask) {
  RunOutcome outcome;
  const auto add = [](const absl::Status& error) {
    return absl::Status(error.code(), absl::StrCat(error.message(), " in block 3"));
  };
  outcome.SayWhere(add);  // not stopped yet: no effect
  outcome.Stop(RunState::kFailed, absl::DeadlineExceededError("late"));
  outcome.SayWhere(add);
  outcome.SayWhere(add);
  EXPECT_EQ(outcome.stop_error().message(), "late in block 3");
}

}  // namespace
}  // namespace pto::engine

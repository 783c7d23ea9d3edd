#include "client/open_run.h"

#include <string>
#include <vector>

#include "client/testing/client_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::pto::testing::kSlack;
using ::pto::testing::Stopwatch;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OpenRunTest : public testing::ClientFixture {
 protected:
  OpenRun Begin(Session& session, const RunOptions& options = {}) {
    absl::StatusOr<OpenRun> run = session.BeginOpenRun(options);
    EXPECT_THAT(run, IsOk());
    return *std::move(run);
  }
};

TEST_F(OpenRunTest, ABlockHasOnlyWhatIsNew) {
  StartDaemon();
  Session session = CreateSession({.id = "s"});
  OpenRun run = Begin(session, {.run_id = "r", .event_level = v1::RUN_ONLY});
  EXPECT_EQ(run.name(), "sessions/s/runs/r");
  const TensorRef x = run.graph().Tensor("x", "", v1::F32, {4});
  const TaskRef first = run.graph().Task("neg", 0, {x});
  run.graph().Task("neg", 0, {x}).Blocks(2);
  ASSERT_THAT(run.Flush(), IsOk());
  const TensorRef y = run.graph().Tensor("y", "", v1::F32, {4});
  run.graph().Task("add", 1, {x, y}).Scalar(1.5).After(first).NoDependency(1);
  run.graph().Task("neg", 0, {y});
  EXPECT_EQ(run.graph().task_count(), 4u);
  const absl::StatusOr<v1::Run> ended = run.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->name(), run.name());

  const std::vector<v1::StreamRunRequest> parts = daemon_->streamed();
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].header().parent(), "sessions/s");
  EXPECT_EQ(parts[0].header().run_id(), "r");
  EXPECT_EQ(parts[0].header().options().event_level(), v1::RUN_ONLY);
  const v1::StreamRunBlock& one = parts[1].block();
  EXPECT_THAT(one.kernels(), ElementsAre("neg"));
  EXPECT_THAT(one.chips(), ElementsAre("chips/0"));
  EXPECT_THAT(one.buffers(), ElementsAre("x"));
  EXPECT_EQ(one.layouts_size(), 1);
  EXPECT_EQ(one.launches_size(), 2);
  EXPECT_EQ(one.tensors().buffer_size(), 1);
  EXPECT_EQ(one.tasks().first_task(), 0u);
  EXPECT_THAT(one.tasks().launch(), ElementsAre(0u, 1u));
  const v1::StreamRunBlock& two = parts[2].block();
  EXPECT_THAT(two.kernels(), ElementsAre("add"));
  EXPECT_THAT(two.chips(), ElementsAre("chips/1"));
  EXPECT_THAT(two.buffers(), ElementsAre("y"));
  EXPECT_THAT(two.layouts(), IsEmpty());
  EXPECT_THAT(two.launches(), IsEmpty());
  EXPECT_EQ(two.tasks().first_task(), 2u);
  EXPECT_THAT(two.tasks().kernel(), ElementsAre(1u, 0u));
  EXPECT_THAT(two.tasks().dep_count(), ElementsAre(1u, 0u));
  EXPECT_THAT(two.tasks().dep_back(), ElementsAre(2u));
  EXPECT_THAT(two.tasks().arg_delta(), ElementsAre(0, 1, 0));
  ASSERT_EQ(two.tasks().extras_size(), 1);
  EXPECT_EQ(two.tasks().extras(0).row(), 0u);
  EXPECT_EQ(parts[3].commit().task_count(), 4u);
}

TEST_F(OpenRunTest, GoesInBlocksThatTheDaemonAllows) {
  StartDaemon({.max_block_tasks = 100});
  Session session = CreateSession();
  OpenRun run = Begin(session);
  for (int i = 0; i < 250; ++i) run.graph().Task("noop", 0, {});
  ASSERT_THAT(run.Finish(), IsOk());
  const std::vector<v1::StreamRunRequest> parts = daemon_->streamed();
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[1].block().tasks().kernel_size(), 100);
  EXPECT_EQ(parts[3].block().tasks().kernel_size(), 50);
  EXPECT_EQ(parts[3].block().tasks().first_task(), 200u);
}

// Signals start at zero in each segment, so a wait would never see the notification of another
// segment.
TEST_F(OpenRunTest, TasksOnSignalsOfADomainGoInOneBlockOrNotAtAll) {
  StartDaemon({.max_block_tasks = 100});
  Session session = CreateSession({.id = "s"});
  enum class Use { kNone, kArgument, kMember, kPredicate };
  const auto finish = [&](const std::string& slot, Use use, int tasks) {
    OpenRun run = Begin(session);
    GraphBuilder& graph = run.graph();
    const TensorRef signal = graph.Tensor("signal", slot, v1::I64, {1});
    const TensorRef other = graph.Tensor("other", "b", v1::I64, {1});
    for (int i = 1; i < tasks; ++i) graph.Task("noop", 0, {other});
    if (use == Use::kArgument) graph.WaitFor(signal, v1::GE, 1);
    if (use == Use::kMember) graph.Group("gather", {{0, {other}}, {1, {signal}}});
    if (use == Use::kPredicate) graph.Task("noop", 0, {}).If(signal, v1::EQ, 1);
    if (use == Use::kNone) graph.Task("noop", 0, {});
    return run.Finish().status();
  };
  for (const Use use : {Use::kArgument, Use::kMember, Use::kPredicate}) {
    EXPECT_THAT(finish("domains/d/ranks/0/signals", use, 100), IsOk());
    EXPECT_THAT(finish("domains/d/ranks/0/signals", use, 101), HasReason(reason::kGraphTooLarge));
  }
  const absl::Status refused = finish("sessions/s/domains/d/ranks/12/signals", Use::kArgument, 250);
  EXPECT_THAT(refused, HasReason(reason::kGraphTooLarge));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("at most 100 tasks"));
  EXPECT_THAT(GetErrorDetail(refused)->hint, HasSubstr("call Flush more often"));
  // Not signals of a domain: words of a buffer, a window's buffer, and tensors that no task uses.
  EXPECT_THAT(finish("signals", Use::kArgument, 250), IsOk());
  EXPECT_THAT(finish("domains/d/ranks/0/buffers/signals", Use::kArgument, 250), IsOk());
  EXPECT_THAT(finish("domains/d/ranks/0/signals", Use::kNone, 250), IsOk());
}

TEST_F(OpenRunTest, WhatWasSentBeforeDoesNotCountForTheLimitOfSignals) {
  StartDaemon({.max_block_tasks = 100});
  Session session = CreateSession();
  OpenRun run = Begin(session);
  GraphBuilder& graph = run.graph();
  const TensorRef signal = graph.Tensor("signal", "domains/d/ranks/0/signals", v1::I64, {1});
  for (int i = 0; i < 3; ++i) {
    for (int task = 0; task < 98; ++task) graph.Task("noop", 0, {});
    graph.WaitFor(signal, v1::GE, 1);
    graph.Notify(signal, 1);
    EXPECT_THAT(run.Flush(), IsOk());
  }
  for (int task = 0; task < 250; ++task) graph.Task("noop", 0, {});
  EXPECT_THAT(run.Finish(), IsOk());
  EXPECT_EQ(daemon_->streamed().back().commit().task_count(), 550u);
}

TEST_F(OpenRunTest, FlushEndsAtItsDeadlineWhenTheDaemonReadsNothing) {
  StartDaemon();
  Session session = CreateSession();
  gate().Hang("StreamRun");
  OpenRun run = Begin(session);
  absl::Status flushed;
  for (int i = 0; i < 1000 && flushed.ok(); ++i) {
    for (int task = 0; task < 50'000; ++task) run.graph().Task("noop", 0, {}).Scalar(1.0);
    Stopwatch stopwatch;
    flushed = run.Flush(absl::Milliseconds(200));
    EXPECT_LT(stopwatch.Elapsed(), kSlack);
  }
  EXPECT_THAT(flushed, HasReason(reason::kClientTimeout));
  EXPECT_THAT(run.Finish(absl::Milliseconds(200)), HasReason(reason::kClientTimeout));
  // Nothing was lost.
  gate().Release();
  ASSERT_THAT(run.Finish(), IsOk());
  const std::vector<v1::StreamRunRequest> parts = daemon_->streamed();
  EXPECT_EQ(parts.back().commit().task_count(), run.graph().task_count());
  uint64_t tasks = 0;
  for (const v1::StreamRunRequest& part : parts) {
    if (!part.has_block()) continue;
    EXPECT_EQ(part.block().tasks().first_task(), tasks);
    tasks += static_cast<uint64_t>(part.block().tasks().kernel_size());
  }
  EXPECT_EQ(tasks, run.graph().task_count());
}

TEST_F(OpenRunTest, MistakesAreFoundHere) {
  StartDaemon();
  Session session = CreateSession();
  OpenRun run = Begin(session);
  run.graph().Task("noop", 0, {}).Scalar(run.graph().Scalar("rate", 1.0));
  EXPECT_THAT(run.Flush(), HasReason(reason::kScalarInvalid));
}

TEST_F(OpenRunTest, AfterCancelThereIsNothingToSendTo) {
  StartDaemon();
  Session session = CreateSession();
  OpenRun run = Begin(session);
  run.graph().Task("noop", 0, {});
  ASSERT_THAT(run.Flush(), IsOk());
  run.Cancel();
  EXPECT_THAT(run.Flush(), HasReason(reason::kStreamEnded));
  EXPECT_THAT(run.Finish(), HasReason(reason::kStreamEnded));
}

TEST_F(OpenRunTest, ADaemonThatGoesEndsIt) {
  StartDaemon();
  Session session = CreateSession();
  OpenRun run = Begin(session);
  run.graph().Task("noop", 0, {});
  ASSERT_THAT(run.Flush(), IsOk());
  RestartDaemon();
  EXPECT_THAT(run.Finish(), HasReason(reason::kBootIdChanged));
}

}  // namespace
}  // namespace pto

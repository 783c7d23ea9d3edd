#include "client/run.h"

#include <string>

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
using ::testing::HasSubstr;

class RunTest : public testing::ClientFixture {
 protected:
  absl::StatusOr<pto::Run> Submit(Session& session, const RunOptions& options = {}) {
    v1::GraphSpec graph;
    graph.add_tasks()->set_kernel("add");
    return session.Submit(graph, options);
  }
};

TEST_F(RunTest, CarriesItsOptions) {
  StartDaemon();
  Session session = CreateSession({.id = "s"});
  absl::StatusOr<pto::Run> run = Submit(session, {.run_id = "r",
                                                  .timeout = absl::Milliseconds(1500),
                                                  .queue_timeout = absl::Nanoseconds(1),
                                                  .task_timeout = absl::Nanoseconds(2),
                                                  .wait_timeout = absl::Nanoseconds(3),
                                                  .priority = v1::HIGH,
                                                  .event_level = v1::RUN_ONLY,
                                                  .labels = {{"k", "v"}},
                                                  .wait = absl::Seconds(2)});
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->name(), "sessions/s/runs/r");
  const v1::SubmitRunRequest sent = daemon_->submitted();
  EXPECT_EQ(sent.graph().tasks(0).kernel(), "add");
  EXPECT_EQ(sent.options().timeout().seconds(), 1);
  EXPECT_EQ(sent.options().timeout().nanos(), 500'000'000);
  EXPECT_EQ(sent.options().queue_timeout().nanos(), 1);
  EXPECT_EQ(sent.options().task_timeout().nanos(), 2);
  EXPECT_EQ(sent.options().wait_timeout().nanos(), 3);
  EXPECT_EQ(sent.options().priority(), v1::HIGH);
  EXPECT_EQ(sent.options().event_level(), v1::RUN_ONLY);
  EXPECT_EQ(sent.options().labels().at("k"), "v");
  EXPECT_EQ(sent.wait().seconds(), 2);
}

TEST_F(RunTest, IsWaitedFor) {
  StartDaemon();
  Session session = CreateSession();
  daemon_->HoldRuns(true);
  absl::StatusOr<pto::Run> run = Submit(session);
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->Get()->state(), v1::Run::RUNNING);
  EXPECT_FALSE(StatusOf(*run->Get()).ok());

  Stopwatch stopwatch;
  const absl::StatusOr<v1::Run> early = run->Wait(absl::Milliseconds(100));
  ASSERT_THAT(early, HasReason(reason::kClientTimeout));
  EXPECT_THAT(std::string(early.status().message()), HasSubstr(run->name()));
  EXPECT_LT(stopwatch.Elapsed(), kSlack);

  daemon_->HoldRuns(false);
  const absl::StatusOr<v1::Run> ended = run->Wait();
  ASSERT_THAT(ended, IsOk());
  EXPECT_THAT(StatusOf(*ended), IsOk());
}

TEST_F(RunTest, NeedsNoCallWhenItHadEndedAlready) {
  StartDaemon();
  Session session = CreateSession();
  absl::StatusOr<pto::Run> run = Submit(session);
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->Wait()->state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(gate().calls("WaitRun"), 0);
}

TEST_F(RunTest, IsCancelled) {
  StartDaemon();
  Session session = CreateSession();
  daemon_->HoldRuns(true);
  absl::StatusOr<pto::Run> run = Submit(session);
  ASSERT_THAT(run, IsOk());
  ASSERT_THAT(run->Cancel("enough"), IsOk());
  const absl::StatusOr<v1::Run> ended = run->Wait();
  ASSERT_THAT(ended, IsOk());
  EXPECT_THAT(StatusOf(*ended), HasReason(reason::kRunCancelled));
  EXPECT_EQ(StatusOf(*ended).message(), "enough");
}

TEST_F(RunTest, WaitEndsAtItsDeadlineWhenTheDaemonHangs) {
  StartDaemon();
  Session session = CreateSession();
  daemon_->HoldRuns(true);
  absl::StatusOr<pto::Run> run = Submit(session);
  ASSERT_THAT(run, IsOk());
  gate().Hang("WaitRun");
  Stopwatch stopwatch;
  EXPECT_THAT(run->Wait(absl::Milliseconds(200)), HasReason(reason::kClientTimeout));
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
}

TEST_F(RunTest, WaitOutlivesABrokenConnection) {
  StartDaemon();
  Session session = CreateSession();
  daemon_->HoldRuns(true);
  absl::StatusOr<pto::Run> run = Submit(session);
  ASSERT_THAT(run, IsOk());
  gate().FailNext("WaitRun", grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed"));
  daemon_->HoldRuns(false);
  EXPECT_THAT(run->Wait(), IsOk());
}

TEST_F(RunTest, IsSubmittedOnceWithoutAnId) {
  StartDaemon();
  Session session = CreateSession();
  gate().FailNext("SubmitRun", grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed"));
  EXPECT_THAT(Submit(session), HasReason(reason::kDaemonUnreachable));
  EXPECT_EQ(gate().calls("SubmitRun"), 1);
  gate().FailNext("SubmitRun", grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed"));
  EXPECT_THAT(Submit(session, {.run_id = "r"}), IsOk());
  EXPECT_EQ(gate().calls("SubmitRun"), 3);
}

TEST_F(RunTest, EventsEndWithTheRun) {
  StartDaemon();
  Session session = CreateSession();
  const pto::Run run = session.GetRun("r");
  daemon_->AddRunEvent(session.name(), run.name(), v1::Run::RUNNING);
  daemon_->AddRunEvent(session.name(), run.name(), v1::Run::SUCCEEDED);
  daemon_->AddRunEvent(session.name(), "another", v1::Run::RUNNING);
  absl::StatusOr<EventStream> events = run.Events();
  ASSERT_THAT(events, IsOk());
  EXPECT_EQ((*events->Next())->events(0).run().state(), v1::Run::RUNNING);
  EXPECT_EQ((*events->Next())->events(0).run().state(), v1::Run::SUCCEEDED);
  absl::StatusOr<absl::optional<v1::EventBatch>> end = events->Next();
  ASSERT_THAT(end, IsOk());
  EXPECT_FALSE(end->has_value());
}

}  // namespace
}  // namespace pto

#include "client/session.h"

#include <string>
#include <utility>
#include <vector>

#include "client/testing/client_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::pto::testing::kLong;
using ::pto::testing::kSlack;
using ::pto::testing::Stopwatch;
using ::testing::HasSubstr;

class SessionTest : public testing::ClientFixture {};

// Waits until the session knows that it is lost.
absl::Status AwaitLoss(const Session& session) {
  Stopwatch stopwatch;
  while (session.status().ok() && stopwatch.Elapsed() < kLong) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  return session.status();
}

TEST_F(SessionTest, IsDeletedWithTheObject) {
  StartDaemon();
  std::string name;
  {
    Session session = CreateSession({.id = "s1", .labels = {{"who", "me"}}, .weight = 5});
    name = session.name();
    EXPECT_EQ(name, "sessions/s1");
    EXPECT_EQ(session.info().labels().at("who"), "me");
    EXPECT_EQ(session.info().weight(), 5u);
    EXPECT_TRUE(daemon_->HasSession(name));
    Session moved = std::move(session);
    EXPECT_TRUE(daemon_->HasSession(name));
  }
  EXPECT_FALSE(daemon_->HasSession(name));
  EXPECT_EQ(gate().calls("DeleteSession"), 1);
}

TEST_F(SessionTest, HasARandomIdUnlessToldOtherwise) {
  StartDaemon();
  EXPECT_NE(CreateSession().name(), CreateSession().name());
}

TEST_F(SessionTest, StaysWhenDetached) {
  StartDaemon();
  std::string name;
  {
    Session session = CreateSession();
    name = session.name();
    session.Detach();
    EXPECT_THAT(session.CreateBuffer("b", 0, 8), IsOk());
  }
  EXPECT_TRUE(daemon_->HasSession(name));
}

TEST_F(SessionTest, CanBeAttachedTo) {
  StartDaemon();
  Session session = CreateSession();
  {
    absl::StatusOr<Session> other = Connect().AttachSession(session.name());
    ASSERT_THAT(other, IsOk());
    EXPECT_THAT(other->CreateBuffer("b", 0, 8), IsOk());
  }
  EXPECT_TRUE(daemon_->HasSession(session.name()));
  EXPECT_THAT(Connect().AttachSession("sessions/other"), HasReason(reason::kSessionUnknown));
}

TEST_F(SessionTest, TakesNoCallsAfterClose) {
  StartDaemon();
  Session session = CreateSession();
  EXPECT_THAT(session.Close(), IsOk());
  EXPECT_FALSE(daemon_->HasSession(session.name()));
  EXPECT_THAT(session.CreateBuffer("b", 0, 8), HasReason(reason::kSessionEnded));
  EXPECT_EQ(gate().calls("CreateBuffers"), 0);
}

TEST_F(SessionTest, RenewsItself) {
  StartDaemon({.ttl = absl::Milliseconds(60)});
  Session first = CreateSession();
  Session second = CreateSession();
  EXPECT_TRUE(gate().WaitForCalls("RenewSession", 6));
  EXPECT_THAT(first.status(), IsOk());
  EXPECT_THAT(second.status(), IsOk());
}

TEST_F(SessionTest, GoesOnRenewingAfterAFailure) {
  StartDaemon({.ttl = absl::Milliseconds(60)});
  gate().FailNext("RenewSession", grpc::Status(grpc::StatusCode::UNAVAILABLE, "just now"));
  Session session = CreateSession();
  EXPECT_TRUE(gate().WaitForCalls("RenewSession", 4));
  EXPECT_THAT(session.status(), IsOk());
}

TEST_F(SessionTest, RenewalFindsThatTheLeaseEnded) {
  StartDaemon({.ttl = absl::Milliseconds(60)});
  Session session = CreateSession();
  absl::StatusOr<Buffer> buffer = session.CreateBuffer("b", 0, 8);
  ASSERT_THAT(buffer, IsOk());
  daemon_->EndSession(session.name());
  EXPECT_THAT(AwaitLoss(session), HasReason(reason::kSessionEnded));

  // Later calls fail without an RPC.
  EXPECT_THAT(session.CreateBuffer("c", 0, 8), HasReason(reason::kSessionEnded));
  EXPECT_THAT(buffer->Write(std::vector<int64_t>{1}), HasReason(reason::kSessionEnded));
  EXPECT_THAT(session.GetRun("r").Wait(), HasReason(reason::kSessionEnded));
  EXPECT_THAT(session.OpenLaunchStream(), HasReason(reason::kSessionEnded));
  EXPECT_EQ(gate().calls("CreateBuffers"), 1);
  EXPECT_EQ(gate().calls("WriteBuffer"), 0);
  EXPECT_EQ(gate().calls("WaitRun"), 0);
}

TEST_F(SessionTest, RenewalFindsThatTheDaemonWasRestarted) {
  StartDaemon({.ttl = absl::Milliseconds(60)});
  Session session = CreateSession();
  RestartDaemon();
  EXPECT_THAT(AwaitLoss(session), HasReason(reason::kBootIdChanged));
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("was restarted"));
}

TEST_F(SessionTest, ACallFindsThatTheDaemonWasRestarted) {
  StartDaemon();
  Session session = CreateSession();
  RestartDaemon();
  absl::StatusOr<Buffer> buffer = session.CreateBuffer("b", 0, 8);
  // The first call may come between two attempts to connect.
  for (Stopwatch stopwatch; stopwatch.Elapsed() < kLong &&
                            ReasonOf(buffer.status()) == reason::kDaemonUnreachable.name;) {
    buffer = session.CreateBuffer("b", 0, 8);
  }
  ASSERT_THAT(buffer, HasReason(reason::kBootIdChanged));
  const int calls = gate().calls("CreateBuffers");
  EXPECT_THAT(session.CreateBuffer("b", 0, 8), HasReason(reason::kBootIdChanged));
  EXPECT_EQ(gate().calls("CreateBuffers"), calls);
}

TEST_F(SessionTest, IsNotLostWhenAnotherOneIs) {
  StartDaemon();
  Session session = CreateSession();
  v1::LaunchGraphRequest request;
  request.set_graph("sessions/another/graphs/g");
  EXPECT_THAT(session.Launch(request), HasReason(reason::kSessionUnknown));
  EXPECT_THAT(session.status(), IsOk());
  EXPECT_THAT(session.Launch("g"), IsOk());
}

TEST_F(SessionTest, SaysThatTheDaemonIsGone) {
  StartDaemon();
  Session session = CreateSession();
  daemon_.reset();
  Stopwatch stopwatch;
  EXPECT_THAT(session.CreateBuffer("b", 0, 8), HasReason(reason::kDaemonUnreachable));
  // The daemon may come back with the session: that is not known yet.
  EXPECT_THAT(session.status(), IsOk());
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
}

TEST_F(SessionTest, DoesNotHoldUpItsDestructionByARenewal) {
  StartDaemon({.ttl = absl::Seconds(90)});
  gate().Hang("DeleteSession");
  Stopwatch stopwatch;
  {
    Session session = CreateSession();
  }
  EXPECT_LT(stopwatch.Elapsed(), absl::Seconds(2) + kSlack);
}

TEST_F(SessionTest, EndsQuicklyDuringARenewalThatHangs) {
  StartDaemon({.ttl = absl::Milliseconds(300)});
  Session session = CreateSession();
  gate().Hang("RenewSession");
  ASSERT_TRUE(gate().WaitForCalls("RenewSession", 1));
  Stopwatch stopwatch;
  session.Detach();
  {
    Session last_owner = std::move(session);
  }
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
}

TEST_F(SessionTest, CreatesATensorOfTheRightSize) {
  StartDaemon();
  Session session = CreateSession();
  absl::StatusOr<Tensor<float>> tensor = session.CreateTensor<float>(0, {4, 3});
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->buffer().bytes(), 48u);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  ASSERT_THAT(tensor->Write(values), IsOk());
  EXPECT_EQ(*tensor->Read(), values);
  EXPECT_THAT(session.CreateTensor<float>(0, {4, -1}), HasReason(reason::kTensorInvalid));
}

TEST_F(SessionTest, RefusesAGraphThatIsWrongBeforeItIsSent) {
  StartDaemon();
  Session session = CreateSession();
  absl::StatusOr<Buffer> buffer = session.CreateBuffer("b", 1, 64);
  ASSERT_THAT(buffer, IsOk());
  {
    GraphBuilder graph;
    TensorRef tensor = graph.Tensor("t", *buffer, v1::F32, {17});
    graph.Task("add", 1, {tensor});
    EXPECT_THAT(session.Submit(graph), HasReason(reason::kTensorOutOfBounds));
  }
  {
    GraphBuilder graph;
    TensorRef tensor = graph.Tensor("t", *buffer, v1::F32, {16});
    graph.Task("add", 0, {tensor});
    EXPECT_THAT(session.Submit(graph), HasReason(reason::kBufferOnOtherChip));
  }
  {
    GraphBuilder graph;
    TensorRef tensor = graph.Tensor("t", *buffer, v1::F32, {4, 2}, {4, 2}, 1);
    graph.Task("add", 1, {tensor});
    EXPECT_THAT(session.Submit(graph), IsOk());
  }
  EXPECT_EQ(gate().calls("SubmitRun"), 1);
}

}  // namespace
}  // namespace pto

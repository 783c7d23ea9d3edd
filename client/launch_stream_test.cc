#include "client/launch_stream.h"

#include <set>
#include <string>
#include <thread>

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

class LaunchStreamTest : public testing::ClientFixture {
 protected:
  LaunchStream Open(Session& session) {
    absl::StatusOr<LaunchStream> stream = session.OpenLaunchStream();
    EXPECT_THAT(stream, IsOk());
    return *std::move(stream);
  }
  v1::LaunchGraphRequest Request(const Session& session, const std::string& graph = "g") {
    v1::LaunchGraphRequest request;
    request.set_graph(session.name() + "/graphs/" + graph);
    return request;
  }
};

TEST_F(LaunchStreamTest, LaunchesAndCompletes) {
  StartDaemon();
  Session session = CreateSession();
  LaunchStream stream = Open(session);
  for (int i = 0; i < 100; ++i) {
    const absl::StatusOr<uint64_t> tag = stream.Launch(Request(session));
    ASSERT_THAT(tag, IsOk());
    const absl::StatusOr<v1::LaunchCompletion> completion = stream.Next();
    ASSERT_THAT(completion, IsOk());
    EXPECT_EQ(completion->tag(), *tag);
    EXPECT_THAT(StatusOf(*completion), IsOk());
  }
  EXPECT_EQ(gate().calls("LaunchStream"), 1);
}

TEST_F(LaunchStreamTest, LeavesTheRequestToTheCaller) {
  StartDaemon();
  Session session = CreateSession();
  LaunchStream stream = Open(session);
  const v1::LaunchGraphRequest request = Request(session);
  ASSERT_THAT(stream.LaunchAndWait(request), IsOk());
  EXPECT_EQ(request.graph(), session.name() + "/graphs/g");
}

TEST_F(LaunchStreamTest, TellsOfALaunchThatWasRefused) {
  StartDaemon();
  Session session = CreateSession();
  LaunchStream stream = Open(session);
  const absl::StatusOr<v1::LaunchCompletion> refused =
      stream.LaunchAndWait(Request(session, "bad"));
  ASSERT_THAT(refused, IsOk());
  EXPECT_THAT(StatusOf(*refused), HasReason(reason::kGraphUnknown));
  // The stream continues.
  EXPECT_THAT(stream.LaunchAndWait(Request(session)), IsOk());
}

TEST_F(LaunchStreamTest, KeepsOtherCompletionsForNext) {
  StartDaemon();
  Session session = CreateSession();
  LaunchStream stream = Open(session);
  const absl::StatusOr<uint64_t> first = stream.Launch(Request(session));
  ASSERT_THAT(first, IsOk());
  const absl::StatusOr<v1::LaunchCompletion> second = stream.LaunchAndWait(Request(session));
  ASSERT_THAT(second, IsOk());
  EXPECT_NE(second->tag(), *first);
  const absl::StatusOr<v1::LaunchCompletion> next = stream.Next();
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->tag(), *first);
}

TEST_F(LaunchStreamTest, SurvivesATimeout) {
  StartDaemon();
  Session session = CreateSession();
  LaunchStream stream = Open(session);
  daemon_->HoldRuns(true);
  const absl::StatusOr<uint64_t> tag = stream.Launch(Request(session));
  ASSERT_THAT(tag, IsOk());
  Stopwatch stopwatch;
  EXPECT_THAT(stream.Next(absl::Milliseconds(100)), HasReason(reason::kClientTimeout));
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
  daemon_->HoldRuns(false);
  const absl::StatusOr<v1::LaunchCompletion> completion = stream.Next();
  ASSERT_THAT(completion, IsOk());
  EXPECT_EQ(completion->tag(), *tag);
}

TEST_F(LaunchStreamTest, BoundsALaunchThatTheDaemonDoesNotTake) {
  StartDaemon();
  Session session = CreateSession();
  gate().Hang("LaunchStream");
  LaunchStream stream = Open(session);
  v1::LaunchGraphRequest large = Request(session);
  large.set_run_id(std::string(1 << 20, 'x'));
  Stopwatch stopwatch;
  absl::Status status;
  // Until the connection is full.
  for (int i = 0; i < 64 && status.ok(); ++i) {
    status = stream.Launch(large, absl::Milliseconds(200)).status();
  }
  EXPECT_THAT(status, HasReason(reason::kClientTimeout));
  EXPECT_LT(stopwatch.Elapsed(), 2 * kSlack);
}

TEST_F(LaunchStreamTest, EndsAfterTheLastCompletion) {
  StartDaemon();
  Session session = CreateSession();
  LaunchStream stream = Open(session);
  ASSERT_THAT(stream.Launch(Request(session)), IsOk());
  ASSERT_THAT(stream.Done(), IsOk());
  EXPECT_THAT(stream.Launch(Request(session)), HasReason(reason::kStreamEnded));
  EXPECT_THAT(stream.Next(), IsOk());
  EXPECT_THAT(stream.Next(), HasReason(reason::kStreamEnded));
  EXPECT_THAT(stream.Next(), HasReason(reason::kStreamEnded));
}

TEST_F(LaunchStreamTest, IsSharedByThreads) {
  StartDaemon();
  Session session = CreateSession();
  LaunchStream stream = Open(session);
  constexpr int kLaunches = 300;
  // One thread launches, one takes completions, and one does both for itself.
  std::thread launcher([&] {
    for (int i = 0; i < kLaunches; ++i) EXPECT_THAT(stream.Launch(Request(session)), IsOk());
  });
  std::thread pair([&] {
    for (int i = 0; i < kLaunches; ++i) EXPECT_THAT(stream.LaunchAndWait(Request(session)), IsOk());
  });
  std::set<uint64_t> tags;
  for (int i = 0; i < kLaunches; ++i) {
    const absl::StatusOr<v1::LaunchCompletion> completion = stream.Next();
    ASSERT_THAT(completion, IsOk());
    tags.insert(completion->tag());
  }
  launcher.join();
  pair.join();
  EXPECT_EQ(tags.size(), static_cast<size_t>(kLaunches));
}

TEST_F(LaunchStreamTest, SaysThatTheDaemonWasRestarted) {
  StartDaemon();
  Session session = CreateSession();
  LaunchStream stream = Open(session);
  ASSERT_THAT(stream.LaunchAndWait(Request(session)), IsOk());
  RestartDaemon();
  EXPECT_THAT(stream.LaunchAndWait(Request(session)), HasReason(reason::kBootIdChanged));
  EXPECT_THAT(stream.Next(), HasReason(reason::kBootIdChanged));
}

TEST_F(LaunchStreamTest, SaysThatTheDaemonIsGone) {
  StartDaemon();
  Session session = CreateSession();
  LaunchStream stream = Open(session);
  ASSERT_THAT(stream.LaunchAndWait(Request(session)), IsOk());
  daemon_.reset();
  Stopwatch stopwatch;
  EXPECT_THAT(stream.LaunchAndWait(Request(session)), HasReason(reason::kDaemonUnreachable));
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
}

TEST_F(LaunchStreamTest, FindsNobodyToOpenItWith) {
  StartDaemon();
  Session session = CreateSession();
  daemon_.reset();
  LaunchStream stream = Open(session);
  // A single launch may be sent before the broken connection is noticed.
  EXPECT_THAT(stream.LaunchAndWait(Request(session)), HasReason(reason::kDaemonUnreachable));
}

}  // namespace
}  // namespace pto

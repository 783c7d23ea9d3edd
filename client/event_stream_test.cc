#include "client/event_stream.h"

#include <thread>
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

class EventStreamTest : public testing::ClientFixture {
 protected:
  void AddEvents(const Session& session, int count) {
    for (int i = 0; i < count; ++i) daemon_->AddRunEvent(session.name(), "r", v1::Run::RUNNING);
  }
  // Sequence numbers of the next `count` events.
  std::vector<uint64_t> Take(EventStream& events, size_t count) {
    std::vector<uint64_t> sequences;
    while (sequences.size() < count) {
      absl::StatusOr<absl::optional<v1::EventBatch>> batch = events.Next();
      EXPECT_THAT(batch, IsOk());
      if (!batch.ok() || !batch->has_value()) break;
      for (const v1::Event& event : (*batch)->events()) sequences.push_back(event.sequence());
    }
    return sequences;
  }
};

TEST_F(EventStreamTest, BringsEventsInOrder) {
  StartDaemon();
  Session session = CreateSession();
  AddEvents(session, 2);
  absl::StatusOr<EventStream> events = session.Watch();
  ASSERT_THAT(events, IsOk());
  EXPECT_THAT(Take(*events, 2), ElementsAre(1, 2));
  EXPECT_EQ(events->through_sequence(), 2u);
  AddEvents(session, 1);
  EXPECT_THAT(Take(*events, 1), ElementsAre(3));
}

TEST_F(EventStreamTest, BeginsWhereItIsToldTo) {
  StartDaemon();
  Session session = CreateSession();
  AddEvents(session, 3);
  absl::StatusOr<EventStream> events = session.Watch({.after_sequence = 2});
  ASSERT_THAT(events, IsOk());
  EXPECT_THAT(Take(*events, 1), ElementsAre(3));
}

TEST_F(EventStreamTest, ResumesWhereItWasBrokenOff) {
  StartDaemon();
  Session session = CreateSession();
  AddEvents(session, 2);
  absl::StatusOr<EventStream> events = session.Watch();
  ASSERT_THAT(events, IsOk());
  EXPECT_THAT(Take(*events, 2), ElementsAre(1, 2));
  daemon_->DropEventStreams();
  AddEvents(session, 2);
  EXPECT_THAT(Take(*events, 2), ElementsAre(3, 4));
  EXPECT_THAT(daemon_->watched_after(), ElementsAre(0, 2));
}

TEST_F(EventStreamTest, LosesNothingByATimeout) {
  StartDaemon();
  Session session = CreateSession();
  absl::StatusOr<EventStream> events = session.Watch();
  ASSERT_THAT(events, IsOk());
  Stopwatch stopwatch;
  EXPECT_THAT(events->Next(absl::Milliseconds(100)), HasReason(reason::kClientTimeout));
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
  AddEvents(session, 1);
  EXPECT_THAT(Take(*events, 1), ElementsAre(1));
  // One call returned everything.
  EXPECT_EQ(gate().calls("WatchEvents"), 1);
}

TEST_F(EventStreamTest, EndsWithItsSession) {
  StartDaemon();
  Session session = CreateSession();
  AddEvents(session, 1);
  absl::StatusOr<EventStream> events = session.Watch();
  ASSERT_THAT(events, IsOk());
  EXPECT_THAT(session.Close(), IsOk());
  // A stream opened after the end finds the session gone.
  EXPECT_THAT(events->Next(), HasReason(reason::kSessionEnded));
}

TEST_F(EventStreamTest, DeliversWhatWasLeftWhenItsSessionEnds) {
  StartDaemon();
  Session session = CreateSession();
  AddEvents(session, 2);
  absl::StatusOr<EventStream> events = session.Watch();
  ASSERT_THAT(events, IsOk());
  EXPECT_THAT(Take(*events, 1), ElementsAre(1));
  EXPECT_THAT(session.Close(), IsOk());
  EXPECT_THAT(Take(*events, 1), ElementsAre(2));
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<absl::optional<v1::EventBatch>> end = events->Next();
    ASSERT_THAT(end, IsOk());
    EXPECT_FALSE(end->has_value());
  }
}

TEST_F(EventStreamTest, SaysThatTheDaemonWasRestarted) {
  StartDaemon();
  Session session = CreateSession();
  AddEvents(session, 1);
  absl::StatusOr<EventStream> events = session.Watch();
  ASSERT_THAT(events, IsOk());
  EXPECT_THAT(Take(*events, 1), ElementsAre(1));
  RestartDaemon();
  EXPECT_THAT(events->Next(), HasReason(reason::kBootIdChanged));
  EXPECT_THAT(events->Next(), HasReason(reason::kBootIdChanged));
  EXPECT_THAT(session.status(), HasReason(reason::kBootIdChanged));
}

TEST_F(EventStreamTest, SaysThatTheDaemonIsGone) {
  StartDaemon();
  Session session = CreateSession();
  AddEvents(session, 1);
  absl::StatusOr<EventStream> events = session.Watch();
  ASSERT_THAT(events, IsOk());
  EXPECT_THAT(Take(*events, 1), ElementsAre(1));
  daemon_.reset();
  Stopwatch stopwatch;
  EXPECT_THAT(events->Next(absl::Seconds(2)), HasReason(reason::kDaemonUnreachable));
  EXPECT_LT(stopwatch.Elapsed(), absl::Seconds(2) + kSlack);
}

TEST_F(EventStreamTest, IsRefusedForGoodByTheDaemon) {
  StartDaemon();
  Session session = CreateSession();
  gate().FailNext("WatchEvents", grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "no such sequence"));
  absl::StatusOr<EventStream> events = session.Watch();
  ASSERT_THAT(events, IsOk());
  EXPECT_EQ(events->Next().status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(events->Next().status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(gate().calls("WatchEvents"), 1);
}

TEST_F(EventStreamTest, EndsWithARunWhoseLastEventWasDropped) {
  StartDaemon();
  Session session = CreateSession();
  absl::StatusOr<pto::Run> run = session.Submit(v1::GraphSpec(), {});
  ASSERT_THAT(run, IsOk());
  daemon_->AddDroppedEvent(session.name());
  AddEvents(session, 1);
  absl::StatusOr<EventStream> events = session.Watch({.until_run_ends = run->name()});
  ASSERT_THAT(events, IsOk());
  // Events that are still held come before the end.
  EXPECT_THAT(Take(*events, 2), ElementsAre(1, 2));
  const absl::StatusOr<absl::optional<v1::EventBatch>> end = events->Next(kSlack);
  ASSERT_THAT(end, IsOk());
  EXPECT_FALSE(end->has_value());
  EXPECT_EQ(gate().calls("GetRun"), 1);
}

TEST_F(EventStreamTest, GoesOnAfterDroppedEventsWhenTheRunDoes) {
  StartDaemon();
  Session session = CreateSession();
  daemon_->HoldRuns(true);
  absl::StatusOr<pto::Run> run = session.Submit(v1::GraphSpec(), {});
  ASSERT_THAT(run, IsOk());
  daemon_->AddDroppedEvent(session.name());
  absl::StatusOr<EventStream> events = session.Watch({.until_run_ends = run->name()});
  ASSERT_THAT(events, IsOk());
  EXPECT_THAT(Take(*events, 1), ElementsAre(1));
  daemon_->AddRunEvent(session.name(), run->name(), v1::Run::SUCCEEDED);
  EXPECT_THAT(Take(*events, 1), ElementsAre(2));
  const absl::StatusOr<absl::optional<v1::EventBatch>> end = events->Next(kSlack);
  ASSERT_THAT(end, IsOk());
  EXPECT_FALSE(end->has_value());
}

TEST_F(EventStreamTest, IsSharedByThreads) {
  StartDaemon();
  Session session = CreateSession();
  absl::StatusOr<EventStream> events = session.Watch();
  ASSERT_THAT(events, IsOk());
  // The second caller waits for its turn, which does not come, and keeps its own deadline.
  std::thread first([&] { EXPECT_THAT(events->Next(), IsOk()); });
  ASSERT_TRUE(gate().WaitForCalls("WatchEvents", 1));
  Stopwatch stopwatch;
  EXPECT_THAT(events->Next(absl::Milliseconds(50)), HasReason(reason::kClientTimeout));
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
  AddEvents(session, 1);
  first.join();
}

TEST_F(EventStreamTest, ClosesWithoutTheDaemon) {
  StartDaemon();
  Session session = CreateSession();
  gate().Hang("WatchEvents");
  Stopwatch stopwatch;
  {
    absl::StatusOr<EventStream> events = session.Watch();
    ASSERT_THAT(events, IsOk());
    EXPECT_THAT(events->Next(absl::Milliseconds(50)), HasReason(reason::kClientTimeout));
  }
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
}

}  // namespace
}  // namespace pto

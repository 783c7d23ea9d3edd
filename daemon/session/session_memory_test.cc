// What sessions hold of the machine's memory, and what they do without when it runs short.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/domain/domain.h"
#include "daemon/events/event_log.h"
#include "daemon/session/testing/open_run_testing.h"
#include "daemon/session/testing/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::OpenFill;
using ::pto::daemon::testing::SessionTest;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kKiB = 1024;

class SessionMemoryTest : public SessionTest {
 protected:
  SessionMemoryTest() {
    limits_.max_sessions = 10;
    limits_.max_session_graphs = 1000;
    limits_.max_session_active_runs = 100;
    limits_.max_session_finished_runs = 100;
  }

  MemoryAccount& all() { return *sessions_->memory().all(); }
  // From now on this much more fits.
  void LeaveRoom(uint64_t bytes) { all().SetLimit(all().used() + bytes); }

  // Runs a graph to its end. Returns its entry.
  std::shared_ptr<RunEntry> Run(Session& session, std::shared_ptr<const engine::GraphImage> image) {
    RunRequest request = FillRequest();
    request.image = std::move(image);
    std::shared_ptr<RunEntry> run = session.StartRun(std::move(request)).value();
    RunAll();
    return run;
  }
};

// Row 15 of the findings: they counted for nothing.
TEST_F(SessionMemoryTest, RegisteredGraphsCount) {
  const std::shared_ptr<Session> session = Create("a");
  const std::shared_ptr<const engine::GraphImage> large = FillGraph(1000);
  ASSERT_GT(large->bytes(), 20 * kKiB);
  LeaveRoom(3 * ImageBytes(*large));
  const uint64_t before = all().used();
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(session->AddGraph(absl::StrCat("g", i), Digest(), FillGraph(1000)), IsOk());
  }
  const auto refused = session->AddGraph("more", Digest(), FillGraph(1000));
  ASSERT_THAT(refused, HasReason(reason::kMemoryBudget));
  const Quota quota = *GetErrorDetail(refused.status())->quota;
  EXPECT_EQ(quota.limit, all().limit());
  EXPECT_EQ(quota.requested, ImageBytes(*large));
  EXPECT_TRUE(session->RemoveGraph("g0"));
  EXPECT_THAT(session->AddGraph("more", Digest(), FillGraph(1000)), IsOk());
  ASSERT_THAT(sessions_->Delete(auth::Daemon(), "a", "test"), IsOk());
  // Only the session's last event is left.
  EXPECT_LT(all().used(), before + ImageBytes(*large));
}

TEST_F(SessionMemoryTest, QueuedRunsCountUntilTheyHaveEnded) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  const std::shared_ptr<const engine::GraphImage> large = FillGraph(1000);
  LeaveRoom(4 * (ImageBytes(*large) + 64'000));
  RunRequest request = FillRequest();
  request.image = large;
  request.labels = {{"key", "value"}};
  std::vector<std::shared_ptr<RunEntry>> runs;
  absl::Status refused;
  while (refused.ok() && runs.size() < 10) {
    const auto run = session->StartRun(request);
    refused = run.status();
    if (run.ok()) runs.push_back(*run);
  }
  EXPECT_THAT(refused, HasReason(reason::kMemoryBudget));
  EXPECT_GE(runs.size(), 2u);
  EXPECT_LT(runs.size(), 5u);
  RunAll();
  const auto next = session->StartRun(request);
  ASSERT_THAT(next, IsOk());
  EXPECT_THAT((*next)->record().labels, SizeIs(1));
  RunAll();
}

TEST_F(SessionMemoryTest, TasksOfEndedRunsGoBeforeAnythingIsRefused) {
  const std::shared_ptr<Session> own = Create("own");
  const std::shared_ptr<Session> other = Create("other");
  std::vector<std::shared_ptr<RunEntry>> runs;
  for (const std::shared_ptr<Session>& session : {own, other}) {
    ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
    for (int i = 0; i < 3; ++i) runs.push_back(Run(*session, FillGraph(1000)));
  }
  for (const auto& run : runs) EXPECT_THAT(run->graph_parts(), SizeIs(1));
  LeaveRoom(10 * kKiB);
  // All six have more than this.
  ASSERT_THAT(MakeBuffers(*own, {{"y", 0, 100 * kKiB}}), IsOk());
  // The oldest went first, and all of the session's own before those of others.
  EXPECT_THAT(runs[0]->graph_parts(), IsEmpty());
  EXPECT_THAT(runs[5]->graph_parts(), SizeIs(1));
  EXPECT_LE(all().used(), all().limit());
  // What does not fit however much goes is refused.
  EXPECT_THAT(MakeBuffers(*own, {{"z", 0, 900 * kKiB}}), HasReason(reason::kMemoryBudget));
  EXPECT_THAT(own->FindBuffer("z"), HasReason(reason::kBufferUnknown));
}

TEST_F(SessionMemoryTest, OldEventsGoToo) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  // Launches keep no tasks, only events.
  const auto graph = session->AddGraph("g", Digest(), FillGraph(5000)).value();
  for (int i = 0; i < 20; ++i) {
    RunRequest request = FillRequest();
    request.graph = graph;
    request.image = graph->image;
    ASSERT_THAT(session->StartRun(std::move(request)), IsOk());
    RunAll();
  }
  const uint64_t log = session->log().bytes();
  ASSERT_GT(log, 400 * kKiB);
  ASSERT_LT(log, 900 * kKiB);
  LeaveRoom(0);
  const std::shared_ptr<Session> next = Create("b");
  ASSERT_THAT(MakeBuffers(*next, {{"y", 0, 100 * kKiB}}), IsOk());
  EXPECT_LT(session->log().bytes(), log - 80 * kKiB);
  EXPECT_LE(all().used(), all().limit());
  // Whoever reads from the beginning is told that something is missing.
  const std::vector<LogEntry> events = session->log().Read(0, 10);
  ASSERT_FALSE(events.empty());
  EXPECT_TRUE(std::holds_alternative<Dropped>(events[0].event) ||
              std::holds_alternative<Dropped>(events[1].event) ||
              std::holds_alternative<Dropped>(events[2].event));
  // A part stays, and then it is refused.
  EXPECT_THAT(MakeBuffers(*next, {{"z", 0, 900 * kKiB}}), HasReason(reason::kMemoryBudget));
  EXPECT_GE(session->log().bytes(), EventLog::kFloor / 2);
}

TEST_F(SessionMemoryTest, SegmentsOfOpenRunsCount) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}, {"y", 0, 64}}), IsOk());
  OpenFill open(*session, "o");
  const uint64_t before = all().used();
  ASSERT_THAT(open.Add({{"x"}}), IsOk());
  EXPECT_GT(all().used(), before);
  LeaveRoom(0);
  session->Shed(all().used());
  LeaveRoom(100);
  EXPECT_THAT(open.Add({{"y"}}), HasReason(reason::kMemoryBudget));
  open.run().Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
  RunAll();
}

TEST_F(SessionMemoryTest, AClientHasItsOwnLimit) {
  SessionManager::Request request;
  request.id = "a";
  const std::shared_ptr<Session> one =
      sessions_->Create(auth::Principal("uid-1", {}), request).value();
  request.id = "b";
  const std::shared_ptr<Session> two =
      sessions_->Create(auth::Principal("uid-2", {}), request).value();
  one->memory()->SetLimit(100 * kKiB);
  ASSERT_THAT(MakeBuffers(*one, {{"x", 0, 64 * kKiB}}), IsOk());
  const auto refused = MakeBuffers(*one, {{"y", 0, 64 * kKiB}});
  ASSERT_THAT(refused, HasReason(reason::kMemoryBudget));
  EXPECT_EQ(GetErrorDetail(refused.status())->quota->name, "max_client_memory_bytes");
  EXPECT_THAT(MakeBuffers(*two, {{"y", 0, 64 * kKiB}}), IsOk());
}

TEST_F(SessionMemoryTest, WindowsOfDomainsCount) {
  const std::shared_ptr<Session> session = Create("a");
  DomainSpec spec;
  spec.chips = {0, 1};
  spec.buffers = {{"x", PTO_F32, 16 * 1024}};
  LeaveRoom(100 * kKiB);
  EXPECT_THAT(session->domains().Create("d", spec), HasReason(reason::kMemoryBudget));
  LeaveRoom(200 * kKiB);
  ASSERT_THAT(session->domains().Create("d", spec), IsOk());
  const uint64_t used = all().used();
  EXPECT_GE(used, 128 * kKiB);
  session->RemoveDomain("d");
  EXPECT_LE(all().used(), used - 128 * kKiB);
}

}  // namespace
}  // namespace pto::daemon

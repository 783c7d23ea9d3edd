#include "daemon/session/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/session/testing/session_testing.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::SessionTest;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

TEST_F(SessionTest, CreationIsIdempotentAndIdsAreUsedOnce) {
  const std::shared_ptr<Session> session = Create("a");
  EXPECT_EQ(Create("a"), session);
  SessionManager::Request other;
  other.id = "a";
  other.digest.low = 7;
  EXPECT_THAT(sessions_->Create(auth::Daemon(), other), HasReason(reason::kIdConflict));
  ASSERT_THAT(sessions_->Delete(auth::Daemon(), "a", "test"), IsOk());
  EXPECT_THAT(sessions_->Find(auth::Daemon(), "a"), HasReason(reason::kSessionEnded));
  EXPECT_EQ(sessions_->Delete(auth::Daemon(), "a", "test").value(), nullptr);
  EXPECT_THAT(sessions_->Delete(auth::Daemon(), "b", "test"), HasReason(reason::kSessionUnknown));
  other.digest = {};
  EXPECT_THAT(sessions_->Create(auth::Daemon(), other), HasReason(reason::kSessionIdUsed));
}

TEST_F(SessionTest, ThereIsALimit) {
  Create("a");
  Create("b");
  SessionManager::Request third;
  third.id = "c";
  EXPECT_THAT(sessions_->Create(auth::Daemon(), third), HasReason(reason::kSessionLimit));
}

TEST_F(SessionTest, SomeSessionsAreKeptForOperators) {
  limits_.max_sessions = 16;
  const auth::Principal user("uid-1000", {});
  for (int i = 0; i < 15; ++i) {
    SessionManager::Request request;
    request.id = absl::StrCat("s", i);
    ASSERT_THAT(sessions_->Create(user, request), IsOk());
  }
  SessionManager::Request last;
  last.id = "last";
  EXPECT_THAT(sessions_->Create(user, last), HasReason(reason::kSessionLimit));
  EXPECT_THAT(sessions_->Create(auth::Daemon(), last), IsOk());
}

TEST_F(SessionTest, OnePrincipalHasOnlySoManySessions) {
  limits_.max_sessions = 8;
  limits_.max_client_sessions = 2;
  const auth::Principal one("uid-1", {});
  const auth::Principal two("uid-2", {});
  SessionManager::Request request;
  // What the request says does not matter.
  for (const char* id : {"a", "b"}) {
    request.id = request.client = id;
    ASSERT_THAT(sessions_->Create(one, request), IsOk());
  }
  request.id = request.client = "c";
  EXPECT_THAT(sessions_->Create(one, request), HasReason(reason::kQuotaSessions));
  EXPECT_THAT(sessions_->Create(two, request), IsOk());
}

// What belongs to somebody else is in no way different from what is not there.
TEST_F(SessionTest, ForeignSessionsAreUnknown) {
  limits_.max_sessions = 8;
  const auth::Principal owner("uid-1", {});
  const auth::Principal other("uid-2", {});
  SessionManager::Request request;
  request.id = "live";
  ASSERT_THAT(sessions_->Create(owner, request), IsOk());
  request.id = "ended";
  ASSERT_THAT(sessions_->Create(owner, request), IsOk());
  ASSERT_THAT(sessions_->Delete(owner, "ended", "a test"), IsOk());
  for (const std::string id : {"live", "ended"}) {
    SCOPED_TRACE(id);
    const absl::Status none = sessions_->Find(other, "none").status();
    const auto same = [&](const absl::Status& status) {
      return status ==
             Error(reason::kSessionUnknown, absl::StrCat("there is no session '", id, "'"))
                 .With("session", id);
    };
    EXPECT_THAT(none, HasReason(reason::kSessionUnknown));
    for (const auth::Right right : {auth::Right::kLook, auth::Right::kEnd, auth::Right::kUse}) {
      EXPECT_TRUE(same(sessions_->Find(other, id, right).status()));
      EXPECT_TRUE(same(sessions_->Use(other, id, right).status()));
    }
    EXPECT_TRUE(same(sessions_->Delete(other, id, "a test").status()));
  }
  EXPECT_THAT(sessions_->Find(owner, "live"), IsOk());
  EXPECT_THAT(sessions_->Find(owner, "ended"), HasReason(reason::kSessionEnded));
  EXPECT_THAT(sessions_->List(other, "", 10), ::testing::IsEmpty());
  EXPECT_THAT(sessions_->List(owner, "", 10), ::testing::SizeIs(1));
}

// Also with the same contents, and whether it lives or has ended, is the owner's or not.
TEST_F(SessionTest, AnIdThatSomebodyElseHasIsUsed) {
  limits_.max_sessions = 8;
  const auth::Principal owner("uid-1", {});
  const auth::Principal other("uid-2", {});
  SessionManager::Request request;
  request.id = "x";
  ASSERT_THAT(sessions_->Create(owner, request), IsOk());
  const absl::Status live = sessions_->Create(other, request).status();
  EXPECT_THAT(live, HasReason(reason::kSessionIdUsed));
  EXPECT_EQ(sessions_->Create(auth::Daemon(), request).status(), live);
  ASSERT_THAT(sessions_->Delete(owner, "x", "a test"), IsOk());
  EXPECT_EQ(sessions_->Create(other, request).status(), live);
  EXPECT_EQ(sessions_->Create(owner, request).status(), live);
}

TEST_F(SessionTest, WhoSeesAllChangesOnlyWhatTheRoleSays) {
  limits_.max_sessions = 8;
  const auth::Principal owner("uid-1", {});
  auth::Rights rights;
  rights.reader = true;
  const auth::Principal reader("uid-2", rights);
  rights.operates = true;
  const auth::Principal operates("uid-3", rights);
  SessionManager::Request request;
  request.id = "x";
  const std::shared_ptr<Session> session = sessions_->Create(owner, request).value();
  for (const auth::Principal* who : {&reader, &operates}) {
    EXPECT_THAT(sessions_->Find(*who, "x", auth::Right::kLook), IsOk());
    EXPECT_THAT(sessions_->List(*who, "", 10), ::testing::SizeIs(1));
    EXPECT_THAT(sessions_->Find(*who, "x"), HasReason(reason::kPermissionDenied));
  }
  // Looking does not extend the lease of somebody else's session.
  const int64_t expires = session->expire_ns();
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(sessions_->Use(operates, "x", auth::Right::kLook), IsOk());
  EXPECT_EQ(session->expire_ns(), expires);
  EXPECT_THAT(sessions_->Delete(reader, "x", "a test"), HasReason(reason::kPermissionDenied));
  EXPECT_THAT(sessions_->Delete(operates, "x", "a test"), IsOk());
}

// A session that names the lease of somebody else's is still an other one for that lease.
TEST_F(SessionTest, TheLeaseOfAForeignSessionIsOfNoUse) {
  limits_.max_sessions = 8;
  const auth::Principal owner("uid-1", {});
  const auth::Principal other("uid-2", {});
  SessionManager::Request request;
  request.id = "holder";
  ASSERT_THAT(sessions_->Create(owner, request), IsOk());
  request.lease = "holder";
  request.id = "own";
  const std::shared_ptr<Session> own = sessions_->Create(owner, request).value();
  request.id = "foreign";
  const std::shared_ptr<Session> foreign = sessions_->Create(other, request).value();
  for (const auto& session : {own, foreign}) MakeBuffers(*session, {{"x", 0, 4096}}).value();
  // Its run keeps the holder from getting the chip.
  ASSERT_THAT(foreign->StartRun(FillRequest()), IsOk());
  EXPECT_TRUE(sessions_->UsedByOthers(0, "holder"));
  EXPECT_FALSE(leases_->Ask("holder", 2, "uid-1", 2)->granted);
  RunAll();
  ASSERT_THAT(own->StartRun(FillRequest()), IsOk());
  EXPECT_FALSE(sessions_->UsedByOthers(0, "holder"));
  clock_.Advance(absl::Seconds(1));
  timers_.RunDue();
  EXPECT_TRUE(leases_->Find("holder")->granted);
  RunAll();
  const absl::Status refused = foreign->StartRun(FillRequest()).status();
  EXPECT_THAT(refused, HasReason(reason::kChipLeased));
  // Nor does the refusal say whose lease it is.
  EXPECT_EQ(refused.message(), "chips/0 is leased to another client");
  EXPECT_THAT(own->StartRun(FillRequest()), IsOk());
}

TEST_F(SessionTest, ALeaseEndsUnlessItIsUsedOrHeld) {
  Create("used", absl::Seconds(10));
  const std::shared_ptr<Session> held = Create("held", absl::Seconds(10));
  held->AddHold();
  clock_.Advance(absl::Seconds(9));
  ASSERT_THAT(sessions_->Use(auth::Daemon(), "used"), IsOk());
  clock_.Advance(absl::Seconds(2));
  timers_.RunDue();
  EXPECT_THAT(sessions_->Find(auth::Daemon(), "used"), IsOk());
  EXPECT_THAT(sessions_->Find(auth::Daemon(), "held"), IsOk());
  clock_.Advance(absl::Seconds(9));
  timers_.RunDue();
  EXPECT_THAT(sessions_->Find(auth::Daemon(), "used"), HasReason(reason::kSessionEnded));
  EXPECT_THAT(sessions_->Find(auth::Daemon(), "held"), IsOk());
  held->DropHold();
  clock_.Advance(absl::Seconds(11));
  timers_.RunDue();
  EXPECT_TRUE(held->ended());
}

TEST_F(SessionTest, TheEndStopsRunsAndFreesMemory) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  const std::shared_ptr<RunEntry> run = session->StartRun(FillRequest()).value();
  EXPECT_GT(engine_->chips()[0]->memory().used_bytes(), 0u);
  ASSERT_THAT(sessions_->Delete(auth::Daemon(), "a", "test"), IsOk());
  EXPECT_EQ(run->Status().state, engine::RunState::kCancelled);
  EXPECT_EQ(engine_->chips()[0]->memory().used_bytes(), 0u);
  EXPECT_THAT(session->StartRun(FillRequest()), HasReason(reason::kSessionEnded));
  EXPECT_THAT(MakeBuffers(*session, {{"y", 0, 64}}), HasReason(reason::kSessionEnded));
  EXPECT_TRUE(session->log().ended());
  // The last event is the session's, after that of its run.
  const std::vector<LogEntry> events = session->log().Read(0, 100);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(std::get<RunEvent>(events[1].event).state, engine::RunState::kCancelled);
  EXPECT_TRUE(std::holds_alternative<SessionEnded>(events[2].event));
}

TEST_F(SessionTest, TheLastEventWaitsForTheLastRun) {
  const std::shared_ptr<Session> session = Create("a");
  // As an engine whose kernel does not return at once: the run is told to stop, and ends later.
  RunRequest request = FillRequest();
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  const std::shared_ptr<RunEntry> entry = session->StartRun(request).value();
  bool ended_early = true;
  entry->AddWaiter([&](const RunStatus&) {
    // The run's own end is in the log; the session's follows when the run is out of the way.
    const std::vector<LogEntry> events = session->log().Read(0, 100);
    ended_early = std::get<RunEvent>(events[1].event).state != engine::RunState::kCancelled;
  });
  ASSERT_THAT(sessions_->Delete(auth::Daemon(), "a", "test"), IsOk());
  EXPECT_FALSE(ended_early);
  EXPECT_TRUE(session->log().ended());
}

TEST_F(SessionTest, AStallIsNotToldAfterTheRunsEnd) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  const std::shared_ptr<RunEntry> run = session->StartRun(FillRequest()).value();
  RunStall stall;
  stall.verdict = 4;
  stall.idle = absl::Seconds(30);
  stall.summary = "it stands still";
  run->TellStall(stall, clock_.WallTime());
  std::vector<LogEntry> events = session->log().Read(0, 100);
  ASSERT_EQ(events.size(), 2u);
  const RunStall& told = std::get<RunStall>(events[1].event);
  EXPECT_EQ(told.run->id, run->record().id);
  EXPECT_EQ(told.verdict, 4);
  EXPECT_EQ(told.idle, absl::Seconds(30));
  EXPECT_EQ(told.summary, "it stands still");
  EXPECT_EQ(events[1].time, clock_.WallTime());
  RunAll();
  // Whoever noticed the stall comes too late.
  run->TellStall(stall, clock_.WallTime());
  events = session->log().Read(0, 100);
  ASSERT_TRUE(std::holds_alternative<RunEvent>(events.back().event));
  EXPECT_EQ(std::get<RunEvent>(events.back().event).state, engine::RunState::kSucceeded);
}

// The two come from different threads.
TEST_F(SessionTest, AStallAndTheEndDoNotMeet) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  for (int round = 0; round < 200; ++round) {
    const uint64_t before = session->log().last_sequence();
    const std::shared_ptr<RunEntry> run = session->StartRun(FillRequest()).value();
    std::atomic<bool> begun{false};
    std::thread watcher([&] {
      do {
        run->TellStall({}, clock_.WallTime());
        begun = true;
      } while (!run->ended());
      run->TellStall({}, clock_.WallTime());
    });
    while (!begun) std::this_thread::yield();
    RunAll();
    watcher.join();
    const std::vector<LogEntry> events = session->log().Read(before, 1'000'000);
    ASSERT_TRUE(std::holds_alternative<RunEvent>(events.back().event)) << round;
    ASSERT_EQ(std::get<RunEvent>(events.back().event).state, engine::RunState::kSucceeded);
  }
}

TEST_F(SessionTest, ChosenIdsAndOwnIdsDoNotMeet) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  ASSERT_THAT(session->StartRun(FillRequest("r-2", 1)), IsOk());
  EXPECT_EQ(session->StartRun(FillRequest()).value()->record().id, "r-1");
  EXPECT_EQ(session->StartRun(FillRequest()).value()->record().id, "r-3");
  RunAll();
  // Only the two newest are kept; the others' ids stay used, and r-4 never was.
  EXPECT_THAT(session->FindRun("r-3"), IsOk());
  EXPECT_THAT(session->FindRun("r-2"), HasReason(reason::kRunExpired));
  EXPECT_THAT(session->StartRun(FillRequest("r-2", 1)), HasReason(reason::kRunIdUsed));
  EXPECT_THAT(session->FindRun("r-4"), HasReason(reason::kRunUnknown));
  EXPECT_THAT(session->FindRun("r-04"), HasReason(reason::kRunUnknown));
  EXPECT_THAT(session->StartRun(FillRequest("r-4", 1)), IsOk());
}

TEST_F(SessionTest, AHelpedRunTellsItsStoryInOneGo) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  RunRequest request;
  request.graph = session->AddGraph("g", Digest{}, FillGraph(2)).value();
  request.image = request.graph->image;
  request.graph->last_run_ns = 1;  // known to be short
  request.help = true;
  const std::shared_ptr<RunEntry> entry = session->StartRun(request).value();
  EXPECT_TRUE(entry->ended());
  EXPECT_EQ(entry->Status().state, engine::RunState::kSucceeded);
  const std::vector<LogEntry> events = session->log().Read(0, 100);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(std::get<RunEvent>(events[0].event).state, engine::RunState::kQueued);
  EXPECT_EQ(std::get<RunEvent>(events[1].event).state, engine::RunState::kRunning);
  EXPECT_EQ(events[2].count, 2u);
  EXPECT_EQ(std::get<RunEvent>(events[3].event).state, engine::RunState::kSucceeded);
}

TEST_F(SessionTest, EventsCanWaitForTheAnswer) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  RunRequest request;
  request.graph = session->AddGraph("g", Digest{}, FillGraph(2)).value();
  request.image = request.graph->image;
  request.graph->last_run_ns = 1;  // known to be short
  request.help = true;
  engine::Completions completions;
  const std::shared_ptr<RunEntry> entry = session->StartRun(request, completions).value();
  EXPECT_TRUE(entry->recorded());
  EXPECT_EQ(entry->EndStatus().state, engine::RunState::kSucceeded);
  // Others do not see the end before its events.
  EXPECT_FALSE(entry->ended());
  EXPECT_EQ(entry->Status().state, engine::RunState::kRunning);
  EXPECT_EQ(session->log().last_sequence(), 0u);
  EXPECT_TRUE(session->has_active_runs());
  session->DrainRuns();
  EXPECT_EQ(session->log().last_sequence(), 0u);
  // A waiter is called when the log has the end.
  uint64_t as_of_sequence = 0;
  EXPECT_NE(
      entry->AddWaiter([&](const RunStatus& status) { as_of_sequence = status.as_of_sequence; }),
      0u);
  EXPECT_EQ(as_of_sequence, 0u);
  EXPECT_EQ(engine_->active_runs(), 1u);
  completions.Drain();
  EXPECT_EQ(session->log().last_sequence(), 5u);
  EXPECT_EQ(as_of_sequence, 5u);
  EXPECT_TRUE(entry->ended());
  EXPECT_EQ(entry->Status().state, engine::RunState::kSucceeded);
  EXPECT_EQ(entry->Status().as_of_sequence, 5u);
  EXPECT_FALSE(session->has_active_runs());
  EXPECT_EQ(engine_->active_runs(), 0u);
}

// A graph remembers its buffers, but only while they are the session's.
TEST_F(SessionTest, AGraphForgetsBuffersThatAreRemoved) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  RunRequest request;
  request.graph = session->AddGraph("g", Digest{}, FillGraph()).value();
  request.image = request.graph->image;
  ASSERT_THAT(session->StartRun(request), IsOk());
  RunAll();
  session->RemoveBuffer("x");
  EXPECT_EQ(engine_->chips()[0]->memory().used_bytes(), 0u);
  EXPECT_THAT(session->StartRun(request), HasReason(reason::kBufferUnknown));
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 128}}), IsOk());
  ASSERT_THAT(session->StartRun(request), IsOk());
  RunAll();
  EXPECT_EQ(
      reinterpret_cast<const float*>(session->FindBuffer("x").value()->memory->AsHost()->data())[0],
      2.5f);
}

TEST_F(SessionTest, ASlotIsBoundOnce) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}, {"y", 0, 64}}), IsOk());
  RunRequest request = FillRequest();
  request.bindings = {{"x", "y", 0}, {"x", "x", 0}};
  EXPECT_THAT(session->StartRun(request), HasReason(reason::kFieldInvalid));
}

TEST_F(SessionTest, BuffersComeAllOrNone) {
  const std::shared_ptr<Session> session = Create("a");
  EXPECT_THAT(MakeBuffers(*session, {{"x", 0, 4096}, {"y", 0, 2 << 20}}),
              HasReason(reason::kChipMemoryExhausted));
  EXPECT_THAT(session->FindBuffer("x"), HasReason(reason::kBufferUnknown));
  EXPECT_EQ(engine_->chips()[0]->memory().used_bytes(), 0u);
  const auto made = MakeBuffers(*session, {{"x", 0, 4096}, {"y", 1, 10}});
  ASSERT_THAT(made, IsOk());
  const auto again = MakeBuffers(*session, {{"y", 1, 10}});
  EXPECT_EQ((*again)[0], (*made)[1]);
  EXPECT_THAT(MakeBuffers(*session, {{"y", 0, 10}}), HasReason(reason::kIdConflict));
  EXPECT_THAT(MakeBuffers(*session, {{"p", 0, 1}, {"q", 0, 1}, {"r", 0, 1}}),
              HasReason(reason::kBufferLimit));
  EXPECT_EQ(session->usage().buffers, 2u);
}

TEST_F(SessionTest, ARunIsExecutedAtMostOnce) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  const std::shared_ptr<RunEntry> first = session->StartRun(FillRequest("job", 1)).value();
  EXPECT_EQ(session->StartRun(FillRequest("job", 1)).value(), first);
  EXPECT_THAT(session->StartRun(FillRequest("job", 2)), HasReason(reason::kIdConflict));
  RunAll();
  EXPECT_EQ(first->Status().state, engine::RunState::kSucceeded);
  EXPECT_EQ(session->StartRun(FillRequest("job", 1)).value(), first);
  // Two newer ones push it out; its id stays used.
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(session->StartRun(FillRequest()), IsOk());
    RunAll();
  }
  EXPECT_THAT(session->FindRun("job"), HasReason(reason::kRunExpired));
  EXPECT_THAT(session->StartRun(FillRequest("job", 1)), HasReason(reason::kRunIdUsed));
  EXPECT_THAT(session->FindRun("never"), HasReason(reason::kRunUnknown));
  EXPECT_EQ(session->usage().finished_runs, 2u);
}

// The finding: the id of a session that is forgotten can be used again, and so its runs' ids could.
TEST_F(SessionTest, ARunIsExecutedAtMostOnceAlsoWhenItsSessionIsForgotten) {
  SetLog(LogLevel::kError, LogFormat::kText);
  {
    const std::shared_ptr<Session> session = Create("a");
    ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
    ASSERT_THAT(session->StartRun(FillRequest("ended", 1)), IsOk());
    RunAll();
    ASSERT_THAT(session->StartRun(FillRequest("active", 1)), IsOk());
    ASSERT_THAT(sessions_->Delete(auth::Daemon(), "a", "test"), IsOk());
    RunAll();
  }
  for (int i = 0; i < 10'000; ++i) {
    const std::string id = std::to_string(i);
    Create(id);
    ASSERT_THAT(sessions_->Delete(auth::Daemon(), id, "test"), IsOk());
  }
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  for (const char* id : {"ended", "active"}) {
    EXPECT_THAT(session->StartRun(FillRequest(id, 1)), HasReason(reason::kRunIdUsed));
    RunTerms open;
    open.id = id;
    EXPECT_THAT(session->StartOpenRun(open), HasReason(reason::kRunIdUsed));
    EXPECT_THAT(session->FindRun(id), HasReason(reason::kRunExpired));
  }
  EXPECT_THAT(session->StartRun(FillRequest("new", 1)), IsOk());
  SetLog(LogLevel::kInfo, LogFormat::kText);
}

TEST_F(SessionTest, RunsAreBoundToTheirBuffers) {
  const std::shared_ptr<Session> session = Create("a");
  EXPECT_THAT(session->StartRun(FillRequest()), HasReason(reason::kBufferUnknown));
  ASSERT_THAT(MakeBuffers(*session, {{"small", 0, 32}, {"other", 1, 64}, {"big", 0, 192}}), IsOk());
  RunRequest request = FillRequest();
  request.bindings = {{"x", "small", 0}};
  EXPECT_THAT(session->StartRun(request), HasReason(reason::kTensorOutOfBounds));
  request.bindings = {{"x", "other", 0}};
  EXPECT_THAT(session->StartRun(request), HasReason(reason::kBufferOnOtherChip));
  request.bindings = {{"z", "big", 0}};
  EXPECT_THAT(session->StartRun(request), HasReason(reason::kSlotUnknown));
  request.bindings = {{"x", "big", 192}};
  EXPECT_THAT(session->StartRun(request), HasReason(reason::kTensorOutOfBounds));
  request.bindings = {{"x", "big", 128}};
  const std::shared_ptr<RunEntry> run = session->StartRun(request).value();
  const std::shared_ptr<SessionBuffer> big = session->FindBuffer("big").value();
  EXPECT_EQ(big->in_use, 1u);
  // Deleted while in use: the run keeps the memory.
  EXPECT_EQ(session->RemoveBuffer("big"), big);
  RunAll();
  EXPECT_EQ(run->Status().state, engine::RunState::kSucceeded);
  EXPECT_EQ(big->in_use, 0u);
  const auto* values = reinterpret_cast<const float*>(big->memory->AsHost()->data());
  EXPECT_EQ(values[31], 0.0f);
  EXPECT_EQ(values[32], 2.5f);
  EXPECT_EQ(values[47], 2.5f);
}

TEST_F(SessionTest, TooManyRunsAtOnceAreRefused) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  for (int i = 0; i < 3; ++i) ASSERT_THAT(session->StartRun(FillRequest()), IsOk());
  EXPECT_THAT(session->StartRun(FillRequest()), HasReason(reason::kRunLimit));
  RunAll();
  EXPECT_THAT(session->StartRun(FillRequest()), IsOk());
}

TEST_F(SessionTest, EventsTellTheWholeStory) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  RunRequest request = FillRequest();
  request.image = FillGraph(3);
  const std::shared_ptr<RunEntry> run = session->StartRun(request).value();
  RunAll();
  std::vector<engine::RunState> states;
  uint64_t tasks = 0;
  for (const LogEntry& entry : session->log().Read(0, 100)) {
    if (const auto* event = std::get_if<RunEvent>(&entry.event)) {
      states.push_back(event->state);
    } else {
      tasks += entry.count;
    }
  }
  EXPECT_EQ(states,
            (std::vector<engine::RunState>{engine::RunState::kQueued, engine::RunState::kRunning,
                                           engine::RunState::kSucceeded}));
  EXPECT_EQ(tasks, 3u);
  EXPECT_EQ(session->log().last_sequence(), 6u);
  EXPECT_EQ(run->Status().as_of_sequence, 6u);
  EXPECT_EQ(run->Status().counts.done, 3u);
}

TEST_F(SessionTest, WaitersCanBeRemovedInAnyOrder) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  const std::shared_ptr<RunEntry> run = session->StartRun(FillRequest()).value();
  std::vector<int> told(100);
  std::vector<uint64_t> ids;
  for (int& one : told) ids.push_back(run->AddWaiter([&one](const RunStatus&) { ++one; }));
  // All but every seventh, from both ends.
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t at = i % 2 == 0 ? i / 2 : ids.size() - 1 - i / 2;
    if (at % 7 == 0) continue;
    EXPECT_TRUE(run->RemoveWaiter(ids[at])) << at;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % 7 == 0) continue;
    EXPECT_FALSE(run->RemoveWaiter(ids[i])) << i;
  }
  RunAll();
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(told[i], i % 7 == 0 ? 1 : 0) << i;
}

TEST_F(SessionTest, WaitersAreToldOnce) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  const std::shared_ptr<RunEntry> run = session->StartRun(FillRequest()).value();
  int told = 0;
  int removed = 0;
  EXPECT_NE(run->AddWaiter([&](const RunStatus& status) {
    ++told;
    EXPECT_EQ(status.state, engine::RunState::kSucceeded);
    // By now the buffers are free and the session knows.
    EXPECT_EQ(session->FindBuffer("x").value()->in_use, 0u);
    EXPECT_EQ(session->usage().active_runs, 0u);
  }),
            0u);
  const uint64_t id = run->AddWaiter([&](const RunStatus&) { ++removed; });
  EXPECT_TRUE(run->RemoveWaiter(id));
  EXPECT_FALSE(run->RemoveWaiter(id));
  RunAll();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(removed, 0);
  EXPECT_EQ(run->AddWaiter([&](const RunStatus&) { ++told; }), 0u);
  EXPECT_EQ(told, 2);
}

TEST_F(SessionTest, ListsRunsNewestFirst) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  for (const char* id : {"one", "two", "three"}) {
    ASSERT_THAT(session->StartRun(FillRequest(id, 1)), IsOk());
  }
  const auto newest = session->ListRuns(0, 2, false);
  ASSERT_EQ(newest.size(), 2u);
  EXPECT_EQ(newest[0]->record().id, "three");
  EXPECT_EQ(newest[1]->record().id, "two");
  const auto rest = session->ListRuns(newest[1]->number(), 2, false);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0]->record().id, "one");
  RunAll();
  EXPECT_TRUE(session->ListRuns(0, 10, true).empty());
}

}  // namespace
}  // namespace pto::daemon

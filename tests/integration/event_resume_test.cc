// Broken event streams: they resume after any number with the next one.

#include <gmock/gmock.h>

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/watch.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::ElementsAre;

const auto kAllStates = ElementsAre(v1::Run::QUEUED, v1::Run::RUNNING, v1::Run::SUCCEEDED);

v1::WatchEventsRequest After(const std::string& session, uint64_t sequence = 0) {
  v1::WatchEventsRequest request;
  request.set_parent(session);
  request.set_after_sequence(sequence);
  return request;
}

// Reads until the run's end has been reported.
void TakeUntilEnded(Api& api, const v1::WatchEventsRequest& request, const std::string& run,
                    EventLedger& ledger) {
  Watch watch(api, request);
  v1::EventBatch batch;
  while (!ledger.ended(run)) {
    ASSERT_TRUE(watch.Next(&batch)) << watch.End();
    ledger.Take(batch);
  }
}

TEST(EventResumeTest, AThousandBreaksLoseNothingAndRepeatNothing) {
  constexpr int kTries = 1000;
  constexpr uint32_t kSeed = 20240607;
  struct Client {
    std::string session;
    std::unique_ptr<Api> api;
    EventLedger ledger;
    std::vector<std::pair<std::string, int>> runs;  // with their numbers of tasks
  };
  DaemonProcess daemon;
  std::mt19937 random(kSeed);
  const auto below = [&](uint32_t n) { return random() % n; };
  std::deque<Client> clients(4);
  for (Client& client : clients) {
    client.api = std::make_unique<Api>(daemon.address());
    client.session = MakeSession(*client.api);
  }
  const auto submit = [&](Client& client) {
    const int count = 100 + static_cast<int>(below(400));
    const v1::Run run =
        Submit(*client.api, client.session, below(2) == 0 ? Noops(count) : Chain(count));
    client.runs.emplace_back(run.name(), count);
  };

  for (int i = 0; i < kTries && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("try ", i, " with seed ", kSeed));
    Client& client = clients[below(static_cast<uint32_t>(clients.size()))];
    // There is always a run to watch, usually while it executes.
    if (client.runs.empty() || client.ledger.ended(client.runs.back().first) || below(20) == 0) {
      submit(client);
    }
    // Sometimes the connection breaks together with the stream.
    if (below(10) == 0) client.api = std::make_unique<Api>(daemon.address());
    v1::WatchEventsRequest request = After(client.session, client.ledger.through());
    if (below(2) == 0) request.mutable_max_linger()->set_nanos(1);
    Watch watch(*client.api, request);
    if (below(10) == 0) continue;  // before any event arrived
    v1::EventBatch batch;
    const uint32_t whole = below(3);
    for (uint32_t n = 0; n < whole && !client.ledger.ended(client.runs.back().first); ++n) {
      ASSERT_TRUE(watch.Next(&batch)) << watch.End();
      client.ledger.Take(batch);
    }
    if (client.ledger.ended(client.runs.back().first)) continue;
    // Breaks somewhere inside the next batch.
    ASSERT_TRUE(watch.Next(&batch)) << watch.End();
    const uint64_t left = batch.through_sequence() - client.ledger.through();
    if (left > 0) client.ledger.Take(batch, client.ledger.through() + 1 + below(uint32_t(left)));
  }

  for (Client& client : clients) {
    for (const auto& [run, count] : client.runs) {
      EXPECT_EQ(WaitForRun(*client.api, run).state(), v1::Run::SUCCEEDED);
      TakeUntilEnded(*client.api, After(client.session, client.ledger.through()), run,
                     client.ledger);
      EXPECT_EQ(client.ledger.tasks_of(run), static_cast<uint64_t>(count)) << run;
      EXPECT_THAT(client.ledger.states(run), kAllStates) << run;
    }
    EXPECT_EQ(client.ledger.dropped(), 0u);
    // A client that read in pieces saw the same as one that reads everything at once.
    EventLedger again;
    TakeUntilEnded(*client.api, After(client.session), client.runs.back().first, again);
    EXPECT_EQ(again.tasks(), client.ledger.tasks());
    EXPECT_EQ(again.through(), client.ledger.through());
  }
}

class EventsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new DaemonProcess; }
  static void TearDownTestSuite() {
    delete daemon_;
    daemon_ = nullptr;
  }
  EventsTest() : session_(MakeSession(api())) {}
  ~EventsTest() override { DeleteSession(api(), session_); }

  static Api& api() { return daemon_->api(); }

  static DaemonProcess* daemon_;
  const std::string session_;
};
DaemonProcess* EventsTest::daemon_ = nullptr;

TEST_F(EventsTest, AFilterLeavesOutOtherRunsAndStillTellsWhereToResume) {
  std::vector<std::string> runs;
  for (int i = 0; i < 6; ++i) runs.push_back(Submit(api(), session_, Chain(300)).name());
  for (const std::string& run : runs) WaitForRun(api(), run);
  v1::WatchEventsRequest request = After(session_);
  request.add_runs(runs[1]);
  request.add_runs(runs[4]);
  EventLedger ledger(true);
  TakeUntilEnded(api(), request, runs[1], ledger);
  // From the middle, on another stream.
  request.set_after_sequence(ledger.through());
  if (!ledger.ended(runs[4])) TakeUntilEnded(api(), request, runs[4], ledger);
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool wanted = i == 1 || i == 4;
    EXPECT_EQ(ledger.tasks_of(runs[i]), wanted ? 300u : 0u);
    EXPECT_EQ(ledger.states(runs[i]).size(), wanted ? 3u : 0u);
  }
  // The rest does not match this stream's filter, but `through` still advances.
  request.set_after_sequence(ledger.through());
  request.mutable_progress_interval()->set_nanos(100'000'000);
  const uint64_t last = GetRun(api(), runs[5]).as_of_sequence();
  Watch watch(api(), request);
  v1::EventBatch batch;
  while (ledger.through() < last) {
    ASSERT_TRUE(watch.Next(&batch)) << watch.End();
    EXPECT_EQ(batch.events_size(), 0);
    ledger.Take(batch);
  }
}

TEST_F(EventsTest, AnIdleStreamShowsThatItIsAlive) {
  const v1::Run run = WaitForRun(api(), Submit(api(), session_, Noops(5)).name());
  v1::WatchEventsRequest request = After(session_, run.as_of_sequence());
  request.mutable_progress_interval()->set_nanos(100'000'000);
  Watch watch(api(), request);
  for (int i = 0; i < 3; ++i) {
    v1::EventBatch batch;
    ASSERT_TRUE(watch.Next(&batch)) << watch.End();
    EXPECT_EQ(batch.events_size(), 0);
    EXPECT_EQ(batch.through_sequence(), run.as_of_sequence());
    EXPECT_EQ(batch.boot_id(), GetNode(api()).boot_id());
  }
}

TEST_F(EventsTest, ASnapshotOfARunTellsWhereItsEventsGoOn) {
  const v1::Run run = Submit(api(), session_, Chain(20'000));
  for (int i = 0; i < 5; ++i) {
    const v1::Run now = GetRun(api(), run.name());
    EventLedger ledger;
    Watch watch(api(), After(session_));
    v1::EventBatch batch;
    while (ledger.through() < now.as_of_sequence()) {
      ASSERT_TRUE(watch.Next(&batch)) << watch.End();
      ledger.Take(batch, now.as_of_sequence());
    }
    EXPECT_GE(now.tasks_done(), ledger.tasks());
  }
  const v1::Run ended = WaitForRun(api(), run.name());
  EventLedger ledger;
  TakeUntilEnded(api(), After(session_), run.name(), ledger);
  EXPECT_EQ(ledger.through(), ended.as_of_sequence());
  EXPECT_EQ(ledger.tasks(), 20'000u);
}

TEST_F(EventsTest, ANumberInTheFutureIsRefusedAndTheLastOneIsNot) {
  const v1::Run run = WaitForRun(api(), Submit(api(), session_, Noops(1)).name());
  v1::EventBatch batch;
  Watch future(api(), After(session_, run.as_of_sequence() + 1));
  EXPECT_FALSE(future.Next(&batch));
  EXPECT_THAT(future.End(), HasReason(reason::kSequenceInFuture));
  // Nothing to send yet; the next event belongs to the next run.
  Watch watch(api(), After(session_, run.as_of_sequence()));
  const v1::Run next = Submit(api(), session_, Noops(1));
  ASSERT_TRUE(watch.Next(&batch)) << watch.End();
  ASSERT_GE(batch.events_size(), 1);
  EXPECT_EQ(batch.events(0).sequence(), run.as_of_sequence() + 1);
  EXPECT_EQ(batch.events(0).run().name(), next.name());
}

TEST_F(EventsTest, AllWatchersOfASessionSeeTheSame) {
  constexpr int kWatchers = 8;
  std::deque<Watch> watches;
  std::deque<EventLedger> ledgers(kWatchers);
  for (int i = 0; i < kWatchers; ++i) watches.emplace_back(api(), After(session_));
  const v1::Run run = Submit(api(), session_, Chain(2000));
  for (int i = 0; i < kWatchers; ++i) {
    v1::EventBatch batch;
    while (!ledgers[i].ended(run.name())) {
      ASSERT_TRUE(watches[i].Next(&batch)) << watches[i].End();
      ledgers[i].Take(batch);
    }
    EXPECT_EQ(ledgers[i].tasks(), 2000u);
    EXPECT_EQ(ledgers[i].through(), ledgers[0].through());
  }
}

TEST_F(EventsTest, LessIsWrittenOnRequest) {
  for (const v1::EventLevel level : {v1::RUN_ONLY, v1::TASK_FAILED, v1::TASK_ENDED}) {
    v1::SubmitRunRequest request =
        SubmitRequest(session_, Proto<v1::GraphSpec>(R"pb(
                        tasks { name: 'good' kernel: 'noop' chip: 'chips/0' }
                        tasks {
                          name: 'bad'
                          kernel: 'fail'
                          chip: 'chips/0'
                          scalars { i64: 3 }
                        }
                        tasks { kernel: 'noop' chip: 'chips/0' after: 'bad' }
                      )pb"));
    request.mutable_options()->set_event_level(level);
    const auto run = Call(*api().run, &v1::RunService::Stub::SubmitRun, request);
    ASSERT_THAT(run, IsOk());
    EventLedger ledger;
    TakeUntilEnded(api(), After(session_), run->name(), ledger);
    EXPECT_EQ(ledger.tasks_of(run->name()),
              level == v1::RUN_ONLY ? 0u : (level == v1::TASK_FAILED ? 2u : 3u));
    EXPECT_EQ(ledger.states(run->name()).back(), v1::Run::FAILED);
  }
}

TEST_F(EventsTest, AStreamEndsWellWithItsSession) {
  const std::string session = MakeSession(api());
  Watch watch(api(), After(session));
  const v1::Run run = Submit(api(), session, Spin(absl::Minutes(10)));
  WaitUntilRunning(api(), run.name());
  DeleteSession(api(), session);
  EventLedger ledger;
  v1::EventBatch batch;
  while (watch.Next(&batch)) ledger.Take(batch);
  EXPECT_THAT(watch.End(), IsOk());
  EXPECT_TRUE(ledger.session_ended());
}

TEST(FullLogTest, WhatIsDroppedIsSaidExactly) {
  DaemonProcess daemon({"--sim-chips=1", "--event-log-bytes=64K"});
  Api& api = daemon.api();
  const std::string session = MakeSession(api);
  // One watcher reads its first batch and is then slow; the other comes late.
  EventLedger slow;
  Watch slow_watch(api, After(session));
  std::vector<std::string> runs;
  v1::EventBatch batch;
  for (int i = 0; i < 4; ++i) {
    runs.push_back(Submit(api, session, Noops(10'000)).name());
    if (i == 0) {
      ASSERT_TRUE(slow_watch.Next(&batch)) << slow_watch.End();
      slow.Take(batch);
    }
    ASSERT_EQ(WaitForRun(api, runs.back()).state(), v1::Run::SUCCEEDED);
  }
  EventLedger late;
  TakeUntilEnded(api, After(session), runs.back(), late);
  while (!slow.ended(runs.back())) {
    ASSERT_TRUE(slow_watch.Next(&batch)) << slow_watch.End();
    slow.Take(batch);
  }
  // Take checks that no number is missing. Most task events were dropped, but no change of a run's
  // state.
  for (EventLedger* ledger : {&slow, &late}) {
    EXPECT_EQ(ledger->tasks() + ledger->dropped(), 40'000u);
    for (const std::string& run : runs) EXPECT_THAT(ledger->states(run), kAllStates) << run;
  }
  EXPECT_GT(late.dropped(), 30'000u);
  EXPECT_GE(late.dropped(), slow.dropped());
  EXPECT_EQ(slow.through(), late.through());

  // Also inside the gap.
  for (const uint64_t after : {uint64_t{1}, uint64_t{5000}, uint64_t{20'000}}) {
    Watch watch(api, After(session, after));
    ASSERT_TRUE(watch.Next(&batch)) << watch.End();
    ASSERT_GT(batch.events_size(), 0);
    EXPECT_EQ(batch.events(0).sequence(), after + 1);
  }
}

TEST(RestartTest, EventsOfAnotherBootAreNotMistakenForThese) {
  DaemonProcess daemon;
  Api& api = daemon.api();
  const std::string session = MakeSession(api);
  WaitForRun(api, Submit(api, session, Noops(10)).name());
  v1::WatchEventsRequest request = After(session, 5);
  request.set_boot_id(GetNode(api).boot_id());
  v1::EventBatch batch;
  {
    Watch watch(api, request);
    EXPECT_TRUE(watch.Next(&batch));
    daemon.Kill();
    while (watch.Next(&batch)) {
    }
    EXPECT_EQ(watch.End().code(), absl::StatusCode::kUnavailable);
  }
  daemon.Restart();
  Watch same_boot(api, request);
  EXPECT_FALSE(same_boot.Next(&batch));
  EXPECT_THAT(same_boot.End(), HasReason(reason::kBootIdChanged));
  request.clear_boot_id();
  Watch any_boot(api, request);
  EXPECT_FALSE(any_boot.Next(&batch));
  EXPECT_THAT(any_boot.End(), HasReason(reason::kSessionUnknown));
}

// Half of them use the library, which reconnects by itself, half do not; the daemon is stopped once
// and killed once.
TEST(RestartTest, AHundredWatchesAllLearnOfIt) {
  constexpr int kWatches = 100;
  DaemonProcess daemon;
  Api& api = daemon.api();
  for (const bool stop : {true, false}) {
    const std::string boot_id = GetNode(api).boot_id();
    std::deque<std::unique_ptr<Watch>> raw;
    std::deque<v1::WatchEventsRequest> resume;
    absl::StatusOr<Client> client = Client::Connect(daemon.address());
    ASSERT_THAT(client, IsOk());
    std::deque<pto::Session> sessions;
    std::deque<EventStream> streams;
    v1::EventBatch batch;
    for (int i = 0; i < kWatches / 2; ++i) {
      // Ten per session.
      if (i % 10 == 0) {
        sessions.push_back(client->CreateSession().value());
        ASSERT_THAT(sessions.back().Submit(Noops(3))->Wait(), IsOk());
      }
      streams.push_back(sessions.back().Watch().value());
      ASSERT_THAT(streams.back().Next(), IsOk());
      raw.push_back(std::make_unique<Watch>(api, After(sessions.back().name())));
      ASSERT_TRUE(raw.back()->Next(&batch)) << raw.back()->End();
      resume.push_back(After(sessions.back().name(), batch.through_sequence()));
      resume.back().set_boot_id(boot_id);
    }
    if (stop) {
      daemon.Stop();
    } else {
      daemon.Kill();
    }
    for (const std::unique_ptr<Watch>& watch : raw) {
      while (watch->Next(&batch)) {
      }
      EXPECT_EQ(watch->End().code(), absl::StatusCode::kUnavailable);
    }
    daemon.Restart();
    for (const v1::WatchEventsRequest& request : resume) {
      Watch again(api, request);
      EXPECT_FALSE(again.Next(&batch));
      EXPECT_THAT(again.End(), HasReason(reason::kBootIdChanged));
    }
    for (EventStream& stream : streams) {
      // Unread events that had already arrived come first.
      absl::StatusOr<absl::optional<v1::EventBatch>> next = stream.Next();
      while (next.ok() && next->has_value()) next = stream.Next();
      EXPECT_THAT(next, HasReason(reason::kBootIdChanged));
    }
    EXPECT_EQ(resume.size() + streams.size(), static_cast<size_t>(kWatches));
  }
}

}  // namespace
}  // namespace pto::testing

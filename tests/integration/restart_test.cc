// What a daemon with a state directory still knows when it was killed or stopped and started
// again: every run that it accepted has one answer, and none is executed twice.

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "proto/status/status_proto.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/runfile.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/watch.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using RunStub = v1::RunService::Stub;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A daemon that remembers.
class RestartTest : public ::testing::Test {
 protected:
  Api& api() { return daemon_.api(); }

  void KillAndRestart() {
    daemon_.Kill();
    daemon_.Restart();
  }

  // A session of this id; in a new boot one may have it again.
  std::string CreateSession(const std::string& id) {
    v1::CreateSessionRequest request;
    request.set_session_id(id);
    request.mutable_ttl()->set_seconds(300);
    const auto session = Call(*api().session, &v1::SessionService::Stub::CreateSession, request);
    EXPECT_THAT(session, IsOk());
    return absl::StrCat("sessions/", id);
  }

  std::vector<std::string> JournalFiles() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(state_)) {
      if (entry.path().filename().string().starts_with("journal-")) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  const Directory directory_;
  const std::string state_ = directory_.path() + "/state";
  DaemonProcess daemon_{{"--sim-chips=1", "--state-dir=" + state_}};
};

absl::Status ErrorOf(const v1::Run& run) { return StatusFromProto(run.error()); }

// ---- what is known of a run

TEST_F(RestartTest, ARunThatEndedIsAsItEnded) {
  const std::string session = MakeSession(api());
  v1::SubmitRunRequest request = SubmitRequest(session, Chain(3), "done");
  (*request.mutable_options()->mutable_labels())["who"] = "me";
  ASSERT_THAT(Call(*api().run, &RunStub::SubmitRun, request), IsOk());
  const v1::Run before = WaitForRun(api(), session + "/runs/done");
  ASSERT_EQ(before.state(), v1::Run::SUCCEEDED);
  const std::string bad_run = Submit(api(), session, Spin(absl::Minutes(10)), "cancelled").name();
  CancelRun(api(), bad_run);
  const v1::Run cancelled = WaitForRun(api(), bad_run);
  KillAndRestart();
  for (v1::Run known : {before, cancelled}) {
    // Numbers of events belong to the boot that had them.
    known.clear_as_of_sequence();
    const v1::Run now = GetRun(api(), known.name());
    EXPECT_EQ(now.DebugString(), known.DebugString());
    EXPECT_EQ(WaitForRun(api(), known.name()).DebugString(), known.DebugString());
  }
  v1::ListRunsRequest list;
  list.set_parent(session);
  list.set_page_size(1);
  const auto first = Call(*api().run, &RunStub::ListRuns, list);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(first->runs(), SizeIs(1));
  EXPECT_EQ(first->runs(0).name(), bad_run);
  list.set_page_token(first->next_page_token());
  const auto second = Call(*api().run, &RunStub::ListRuns, list);
  ASSERT_THAT(second, IsOk());
  ASSERT_THAT(second->runs(), SizeIs(1));
  EXPECT_EQ(second->runs(0).labels().at("who"), "me");
  EXPECT_EQ(second->next_page_token(), "");
}

TEST_F(RestartTest, ARunThatDidNotEndFailedByTheRestart) {
  const std::string boot_id = GetNode(api()).boot_id();
  const std::string session = MakeSession(api());
  const std::string run = Submit(api(), session, Spin(absl::Minutes(10)), "spin").name();
  WaitUntilRunning(api(), run);
  const std::string queued = Submit(api(), session, Spin(absl::Minutes(10))).name();
  KillAndRestart();
  for (const std::string& name : {run, queued}) {
    const v1::Run now = WaitForRun(api(), name);
    EXPECT_EQ(now.state(), v1::Run::FAILED);
    EXPECT_THAT(ErrorOf(now), HasReason(reason::kDaemonRestarted));
    EXPECT_THAT(ErrorOf(now).code(), absl::StatusCode::kAborted);
    EXPECT_THAT(GetErrorDetail(ErrorOf(now))->metadata,
                ::testing::Contains(std::pair<std::string, std::string>("boot_id", boot_id)));
    // Nothing is left to cancel, and it stays so over another restart.
    CancelRun(api(), name);
  }
  const std::string text = GetRun(api(), run).DebugString();
  KillAndRestart();
  EXPECT_EQ(GetRun(api(), run).DebugString(), text);
}

TEST_F(RestartTest, TheSameRequestGetsTheSameAnswerAndIsNotExecuted) {
  const std::string session = MakeSession(api());
  Submit(api(), session, Noops(2), "submitted");
  WaitForRun(api(), session + "/runs/submitted");

  v1::RegisterGraphRequest graph;
  graph.set_parent(session);
  graph.set_graph_id("g");
  *graph.mutable_graph() = Noops(1);
  ASSERT_THAT(Call(*api().run, &RunStub::RegisterGraph, graph), IsOk());
  v1::LaunchGraphRequest launch;
  launch.set_graph(session + "/graphs/g");
  launch.set_run_id("launched");
  launch.mutable_wait()->set_seconds(50);
  ASSERT_THAT(Call(*api().run, &RunStub::LaunchGraph, launch), IsOk());

  const auto stream = [&](const std::string& id) -> absl::Status {
    grpc::ClientContext context;
    v1::Run run;
    const auto writer = api().run->StreamRun(&context, &run);
    v1::StreamRunRequest request;
    request.mutable_header()->set_parent(session);
    request.mutable_header()->set_run_id(id);
    writer->Write(request);
    request.mutable_block()->add_kernels("noop");
    request.mutable_block()->add_chips("chips/0");
    request.mutable_block()->mutable_tasks()->add_kernel(0);
    writer->Write(request);
    request.mutable_commit()->set_task_count(1);
    writer->Write(request);
    writer->WritesDone();
    return FromGrpcStatus(writer->Finish());
  };
  ASSERT_THAT(stream("streamed"), IsOk());
  KillAndRestart();

  const auto submitted =
      Call(*api().run, &RunStub::SubmitRun, SubmitRequest(session, Noops(2), "submitted"));
  ASSERT_THAT(submitted, IsOk());
  EXPECT_EQ(submitted->state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(submitted->tasks_done(), 2u);
  EXPECT_THAT(Call(*api().run, &RunStub::SubmitRun, SubmitRequest(session, Noops(3), "submitted")),
              HasReason(reason::kIdConflict));
  const auto launched = Call(*api().run, &RunStub::LaunchGraph, launch);
  ASSERT_THAT(launched, IsOk());
  EXPECT_EQ(launched->state(), v1::Run::SUCCEEDED);
  EXPECT_THAT(stream("streamed"), HasReason(reason::kRunIdUsed));
  // The fast lane says the same, and goes on after it.
  grpc::ClientContext context;
  const auto lane = api().run->LaunchStream(&context);
  for (uint64_t tag = 1; tag <= 2; ++tag) {
    v1::LaunchStreamRequest request;
    request.set_tag(tag);
    *request.mutable_launch() = launch;
    ASSERT_TRUE(lane->Write(request));
    v1::LaunchCompletion completion;
    ASSERT_TRUE(lane->Read(&completion));
    EXPECT_EQ(completion.tag(), tag);
    EXPECT_EQ(completion.state(), v1::Run::SUCCEEDED);
  }
  lane->WritesDone();
  v1::LaunchCompletion none;
  EXPECT_FALSE(lane->Read(&none));
  EXPECT_TRUE(lane->Finish().ok());
  EXPECT_EQ(GetChip(api(), 0).completed_tasks(), 0u);
}

TEST_F(RestartTest, APackedRunIsKnownByItsContents) {
  const std::string session = MakeSession(api());
  const auto submit = [&](uint32_t tasks) -> absl::StatusOr<v1::Run> {
    grpc::ClientContext context;
    v1::Run run;
    const auto writer = api().run->SubmitPackedRun(&context, &run);
    v1::PackedGraphPart part;
    part.mutable_header()->set_parent(session);
    part.mutable_header()->set_id("packed");
    part.mutable_header()->add_kernels("noop");
    part.mutable_header()->add_chips("chips/0");
    writer->Write(part);
    part.Clear();
    for (uint32_t i = 0; i < tasks; ++i) part.mutable_tasks()->add_kernel(0);
    writer->Write(part);
    part.Clear();
    part.mutable_commit()->set_task_count(tasks);
    writer->Write(part);
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    if (!status.ok()) return FromGrpcStatus(status);
    return run;
  };
  ASSERT_THAT(submit(3), IsOk());
  WaitForRun(api(), session + "/runs/packed");
  KillAndRestart();
  const auto again = submit(3);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->state(), v1::Run::SUCCEEDED);
  EXPECT_THAT(submit(2), HasReason(reason::kIdConflict));
  EXPECT_EQ(GetChip(api(), 0).completed_tasks(), 0u);
}

// ---- sessions and events

TEST_F(RestartTest, ASessionOfAFormerBootHasEnded) {
  const std::string boot_id = GetNode(api()).boot_id();
  const std::string session = MakeSession(api());
  KillAndRestart();
  v1::GetSessionRequest request;
  request.set_name(session);
  const absl::Status status =
      Call(*api().session, &v1::SessionService::Stub::GetSession, request).status();
  EXPECT_THAT(status, HasReason(reason::kSessionEnded));
  EXPECT_THAT(GetErrorDetail(status)->metadata,
              ::testing::Contains(std::pair<std::string, std::string>("boot_id", boot_id)));
  EXPECT_THAT(Call(*api().run, &RunStub::SubmitRun, SubmitRequest(session, Noops(1), "new")),
              HasReason(reason::kSessionEnded));
  v1::GetRunRequest run;
  run.set_name(session + "/runs/none");
  EXPECT_THAT(Call(*api().run, &RunStub::GetRun, run), HasReason(reason::kSessionEnded));
  run.set_name("sessions/never/runs/none");
  EXPECT_THAT(Call(*api().run, &RunStub::GetRun, run), HasReason(reason::kSessionUnknown));
  v1::WatchEventsRequest watch;
  watch.set_parent(session);
  watch.set_after_sequence(3);
  const auto end_of_watch = [&] {
    Watch stream(api(), watch);
    v1::EventBatch batch;
    EXPECT_FALSE(stream.Next(&batch));
    return stream.End();
  };
  EXPECT_THAT(end_of_watch(), HasReason(reason::kSessionEnded));
  watch.set_boot_id(boot_id);
  EXPECT_THAT(end_of_watch(), HasReason(reason::kBootIdChanged));
  DeleteSession(api(), session);
}

TEST_F(RestartTest, ASessionOfTheSameIdKeepsFormerRunsAndTheirIds) {
  const std::string session = CreateSession("mine");
  Submit(api(), session, Noops(1), "named");
  const std::string own = Submit(api(), session, Noops(1)).name();
  WaitForRun(api(), own);
  WaitForRun(api(), session + "/runs/named");
  KillAndRestart();
  CreateSession("mine");
  EXPECT_EQ(GetRun(api(), own).state(), v1::Run::SUCCEEDED);
  const auto again =
      Call(*api().run, &RunStub::SubmitRun, SubmitRequest(session, Noops(1), "named"));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->state(), v1::Run::SUCCEEDED);
  EXPECT_THAT(Call(*api().run, &RunStub::SubmitRun, SubmitRequest(session, Noops(2), "named")),
              HasReason(reason::kIdConflict));
  EXPECT_EQ(GetChip(api(), 0).completed_tasks(), 0u);
  const std::string next = Submit(api(), session, Noops(1)).name();
  EXPECT_NE(next, own);
  WaitForRun(api(), next);
  v1::ListRunsRequest list;
  list.set_parent(session);
  const auto runs = Call(*api().run, &RunStub::ListRuns, list);
  ASSERT_THAT(runs, IsOk());
  ASSERT_THAT(runs->runs(), SizeIs(3));
  EXPECT_EQ(runs->runs(0).name(), next);
  EXPECT_EQ(runs->runs(1).name(), own);
}

TEST_F(RestartTest, TheLibraryStillReadsRuns) {
  absl::StatusOr<Client> client = Client::Connect(daemon_.address());
  ASSERT_THAT(client, IsOk());
  absl::StatusOr<Session> session = client->CreateSession();
  ASSERT_THAT(session, IsOk());
  const absl::StatusOr<pto::Run> done = session->Submit(Noops(1));
  ASSERT_THAT(done, IsOk());
  ASSERT_THAT(done->Wait(), IsOk());
  const absl::StatusOr<pto::Run> lost = session->Submit(Spin(absl::Minutes(10)));
  ASSERT_THAT(lost, IsOk());
  KillAndRestart();
  EXPECT_TRUE(Eventually([&] { return client->GetNode().ok(); }));
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<v1::Run> now = done->Get();
    ASSERT_THAT(now, IsOk());
    EXPECT_EQ(now->state(), v1::Run::SUCCEEDED);
    const absl::StatusOr<v1::Run> ended = lost->Wait();
    ASSERT_THAT(ended, IsOk());
    EXPECT_THAT(StatusOf(*ended), HasReason(reason::kDaemonRestarted));
    // Once the session is known to be lost it is the same.
    EXPECT_THAT(session->Submit(Noops(1)), HasReason(reason::kBootIdChanged));
  }
}

// ---- the journal's files

TEST_F(RestartTest, ABrokenJournalIsKeptAsideAndTheDaemonServes) {
  const std::string session = MakeSession(api());
  for (int i = 0; i < 3; ++i) Submit(api(), session, Noops(1), absl::StrCat("run-", i));
  daemon_.Kill();
  const std::string file = JournalFiles().back();
  {
    std::fstream damage(file, std::ios::in | std::ios::out | std::ios::binary);
    damage << "damage";
  }
  // Larger than what a write that was cut short can be.
  std::filesystem::resize_file(file, 1 << 20);
  daemon_.Restart();
  EXPECT_TRUE(daemon_.IsServing("pto.v1.RunService"));
  EXPECT_TRUE(std::filesystem::exists(file + ".corrupt"));
  EXPECT_THAT(daemon_.Log(), HasSubstr("is broken"));
  v1::GetRunRequest run;
  run.set_name(session + "/runs/run-0");
  EXPECT_THAT(Call(*api().run, &RunStub::GetRun, run), HasReason(reason::kSessionUnknown));
}

TEST_F(RestartTest, AFullDiskRefusesRunsUntilThereIsRoom) {
  const std::string session = MakeSession(api());
  const std::string spin = Submit(api(), session, Spin(absl::Minutes(10)), "spin").name();
  // What the daemon sees of a full disk is a write that fails.
  rlimit before = {};
  const rlimit none = {1, RLIM_INFINITY};
  ASSERT_EQ(prlimit(daemon_.pid(), RLIMIT_FSIZE, &none, &before), 0);
  EXPECT_THAT(Call(*api().run, &RunStub::SubmitRun, SubmitRequest(session, Noops(1), "refused")),
              HasReason(reason::kJournalUnwritable));
  EXPECT_FALSE(daemon_.IsServing("pto.v1.RunService"));
  CancelRun(api(), spin);
  EXPECT_EQ(WaitForRun(api(), spin).state(), v1::Run::CANCELLED);
  ASSERT_EQ(prlimit(daemon_.pid(), RLIMIT_FSIZE, &before, nullptr), 0);
  EXPECT_TRUE(Eventually([&] { return daemon_.IsServing("pto.v1.RunService"); }));
  Submit(api(), session, Noops(1), "refused");
  EXPECT_EQ(WaitForRun(api(), session + "/runs/refused").state(), v1::Run::SUCCEEDED);
  KillAndRestart();
  EXPECT_EQ(GetRun(api(), spin).state(), v1::Run::CANCELLED);
}

// ---- under load

// Clients that submit as fast as they can, and what they were told.
class Load {
 public:
  struct Told {
    v1::SubmitRunRequest request;
    bool accepted = false;
    v1::Run::State state = v1::Run::STATE_UNSPECIFIED;  // the last that was told
  };

  Load(Api& api, std::vector<std::string> sessions, int round)
      : sessions_(std::move(sessions)), told_(sessions_.size()) {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      threads_.emplace_back([this, &api, i, round] { Run(api, i, round); });
    }
  }

  // Waits until all have noticed that the daemon is gone.
  std::vector<Told> Finish() {
    for (std::thread& thread : threads_) thread.join();
    std::vector<Told> all;
    for (std::vector<Told>& told : told_) all.insert(all.end(), told.begin(), told.end());
    return all;
  }

  uint64_t accepted() const { return accepted_.load(); }

 private:
  void Run(Api& api, size_t client, int round) {
    for (int i = 0;; ++i) {
      Told told;
      // Some are still running when the daemon goes.
      told.request =
          SubmitRequest(sessions_[client], i % 7 == 3 ? Spin(absl::Milliseconds(5)) : Noops(1),
                        absl::StrCat("run-", round, "-", i));
      v1::SubmitRunRequest request = told.request;
      if (i % 3 == 0) request.mutable_wait()->set_seconds(50);
      const auto run = Call(*api.run, &RunStub::SubmitRun, request);
      if (run.ok()) {
        told.accepted = true;
        told.state = run->state();
        ++accepted_;
      }
      told_[client].push_back(told);
      if (!run.ok()) return;
    }
  }

  const std::vector<std::string> sessions_;
  std::atomic<uint64_t> accepted_{0};
  std::vector<std::vector<Told>> told_;
  std::vector<std::thread> threads_;
};

bool IsOver(v1::Run::State state) {
  return state == v1::Run::SUCCEEDED || state == v1::Run::FAILED || state == v1::Run::CANCELLED;
}

int Restarts() {
  int restarts = kAddressSanitizer ? 10 : 100;
  if (const char* text = std::getenv("PTOD_RESTARTS")) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &restarts));
  }
  return restarts;
}

TEST_F(RestartTest, KilledAtAnyTimeEveryAcceptedRunHasOneAnswerAndOneExecution) {
  constexpr int kClients = 4;
  std::mt19937 random(::testing::UnitTest::GetInstance()->random_seed() + 1);
  std::map<std::string, std::string> answers;  // of all boots so far
  std::vector<std::string> names;
  uint64_t accepted = 0;
  uint64_t lost = 0;
  const size_t open_files = daemon_.OpenFiles();
  for (int round = 0; round < Restarts(); ++round) {
    std::vector<std::string> sessions;
    for (int i = 0; i < kClients; ++i) {
      // Half of them come back under the same id.
      sessions.push_back(CreateSession(i % 2 == 0 ? absl::StrCat("same-", i)
                                                  : absl::StrCat("round-", round, "-", i)));
    }
    MakeBuffer(api(), sessions[0], "held", 1 << 20);
    Load load(api(), sessions, round);
    // Some time after something was accepted, so that there is something to lose.
    const uint64_t enough = 1 + random() % 100;
    EXPECT_TRUE(Eventually([&] { return load.accepted() >= enough; }));
    daemon_.Kill();
    const std::vector<Load::Told> told = load.Finish();
    daemon_.Restart();
    // Nothing of the former boot is left but its journal, in one file.
    EXPECT_EQ(GetChip(api(), 0).memory_used_bytes(), 0u);
    EXPECT_EQ(GetNode(api()).session_count(), 0u);
    EXPECT_TRUE(Eventually([&] { return daemon_.OpenFiles() <= open_files; }));
    EXPECT_THAT(JournalFiles(), SizeIs(1));
    for (const Load::Told& one : told) {
      const std::string name = absl::StrCat(one.request.parent(), "/runs/", one.request.run_id());
      v1::GetRunRequest request;
      request.set_name(name);
      const auto now = Call(*api().run, &RunStub::GetRun, request);
      // What was not answered may have been accepted; then it has an answer too.
      if (!now.ok() && !one.accepted) {
        EXPECT_THAT(now, HasReason(reason::kSessionEnded)) << name;
        continue;
      }
      ASSERT_THAT(now, IsOk()) << name;
      EXPECT_TRUE(IsOver(now->state())) << name;
      if (IsOver(one.state)) {
        EXPECT_EQ(now->state(), one.state) << name;
      } else if (now->state() != v1::Run::SUCCEEDED) {
        EXPECT_THAT(ErrorOf(*now), HasReason(reason::kDaemonRestarted)) << name;
        ++lost;
      }
      const auto again = Call(*api().run, &RunStub::SubmitRun, one.request);
      ASSERT_THAT(again, IsOk()) << name;
      EXPECT_EQ(again->DebugString(), now->DebugString());
      answers[name] = now->DebugString();
      names.push_back(name);
      ++accepted;
    }
    // Answers do not change with later boots.
    for (int i = 0; i < 20 && !names.empty(); ++i) {
      const std::string& name = names[random() % names.size()];
      EXPECT_EQ(GetRun(api(), name).DebugString(), answers[name]);
    }
    // All those requests have executed nothing.
    EXPECT_EQ(GetChip(api(), 0).completed_tasks(), 0u);
  }
  std::cout << "restarts: " << Restarts() << ", accepted runs: " << accepted
            << ", of which not ended when the daemon was killed: " << lost << "\n";
  EXPECT_GT(accepted, 0u);
  // One that stops in order takes along what killed ones had left.
  daemon_.Stop();
  EXPECT_FALSE(std::filesystem::exists(daemon_.socket_path()));
  EXPECT_FALSE(std::filesystem::exists(daemon_.socket_path() + ".mem"));
  EXPECT_THAT(JournalFiles(), SizeIs(1));
}

TEST_F(RestartTest, KilledWhileItStartsItStartsAgain) {
  constexpr int kKills = kAddressSanitizer ? 10 : 40;
  std::mt19937 random(::testing::UnitTest::GetInstance()->random_seed() + 1);
  const std::string session = MakeSession(api());
  const std::string run = Submit(api(), session, Noops(1), "before").name();
  v1::Run before = WaitForRun(api(), run);
  before.clear_as_of_sequence();
  const absl::Time start = absl::Now();
  KillAndRestart();
  const absl::Duration whole = absl::Now() - start;
  daemon_.Kill();
  for (int i = 0; i < kKills; ++i) {
    Process::Options options;
    options.command = {Runfile("daemon/ptod"), "--listen=" + daemon_.address()};
    options.command.insert(options.command.end(), daemon_.flags().begin(), daemon_.flags().end());
    options.out = options.err = daemon_.directory() + "/killed";
    Process process(options);
    // Half way or so it serves, or not yet.
    absl::SleepFor(whole * std::uniform_real_distribution<double>(0, 1)(random));
    process.Signal(SIGKILL);
    ASSERT_TRUE(process.Wait(absl::Seconds(30)).has_value());
  }
  daemon_.Restart();
  EXPECT_EQ(GetRun(api(), run).DebugString(), before.DebugString());
  EXPECT_THAT(JournalFiles(), SizeIs(1));
  EXPECT_EQ(GetNode(api()).session_count(), 0u);
}

TEST_F(RestartTest, StoppedUnderLoadNothingIsLost) {
  std::vector<std::string> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(MakeSession(api()));
  Load load(api(), sessions, 0);
  EXPECT_TRUE(Eventually([&] { return load.accepted() >= 50; }));
  daemon_.Stop();
  const std::vector<Load::Told> told = load.Finish();
  daemon_.Restart();
  for (const Load::Told& one : told) {
    if (!one.accepted) continue;
    const v1::Run run =
        GetRun(api(), absl::StrCat(one.request.parent(), "/runs/", one.request.run_id()));
    EXPECT_EQ(run.state(), v1::Run::SUCCEEDED) << run.DebugString();
  }
}

}  // namespace
}  // namespace pto::testing

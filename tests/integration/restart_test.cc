// What a daemon with a state directory knows after it was killed and restarted: every run that it
// accepted has one outcome, and none is executed twice.

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "daemon/auth/principal.h"
#include "daemon/journal/journal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/process.h"
#include "tests/harness/runfile.h"
#include "tests/integration/lifecycle.h"
#include "tests/integration/restart_testing.h"
#include "tests/integration/watch.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using RunStub = v1::RunService::Stub;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// ---- runs

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
    // Event numbers belong to their boot.
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
    // Nothing is left to cancel, and this stays so after another restart.
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
  // A launch stream gives the same answer, and continues.
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

// The journal of a release whose digests differ and have no version.
TEST_F(RestartTest, AfterAnUpgradeNoRetryIsTakenForTheSameOrForAnother) {
  const std::string session = CreateSession("mine");
  const v1::SubmitRunRequest request = SubmitRequest(session, Noops(1), "named");
  ASSERT_THAT(Call(*api().run, &RunStub::SubmitRun, request), IsOk());
  WaitForRun(api(), session + "/runs/named");
  daemon_.Kill();
  daemon::Journal::Options options;
  options.directory = state_;
  options.boot_id = "before";
  {
    const daemon::JournalHistory history = daemon::Journal::Open(options).value()->TakeHistory();
    for (const std::string& file : JournalFiles()) std::filesystem::remove(file);
    ASSERT_THAT(history.runs, SizeIs(1));
    journal::v1::RunRecord run = history.runs[0];
    EXPECT_NE(run.digest_version(), 0u);
    run.clear_digest_version();
    const std::unique_ptr<daemon::Journal> journal = daemon::Journal::Open(options).value();
    ASSERT_THAT(journal->AddSession("mine", daemon::auth::UidName(geteuid())), IsOk());
    journal->EndRun(journal->AddRun(run).value(), run);
  }
  daemon_.Restart();
  const auto expect_refused = [&] {
    const absl::Status refused = Call(*api().run, &RunStub::SubmitRun, request).status();
    EXPECT_THAT(refused, HasReason(reason::kRunIdUsed));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("an earlier version of ptod"));
    EXPECT_EQ(GetRun(api(), session + "/runs/named").state(), v1::Run::SUCCEEDED);
    EXPECT_EQ(GetChip(api(), 0).completed_tasks(), 0u);
  };
  // With or without a new session, as long as the journal keeps it.
  expect_refused();
  CreateSession("mine");
  expect_refused();
  KillAndRestart();
  expect_refused();
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
    // The same once the session is known to be lost.
    EXPECT_THAT(session->Submit(Noops(1)), HasReason(reason::kBootIdChanged));
  }
}

// ---- the journal's files

// An id is refused when the journal has forgotten all else of its run.
TEST_F(RestartTest, AForgottenRunIsNotExecutedAgain) {
  daemon_.Stop();
  daemon_.Restart({"--sim-chips=1", "--state-dir=" + state_, "--journal-max-runs=2"});
  const std::string session = CreateSession("mine");
  for (int i = 0; i < 5; ++i) {
    Submit(api(), session, Noops(1), absl::StrCat("run-", i));
    WaitForRun(api(), absl::StrCat(session, "/runs/run-", i));
  }
  for (int restart = 0; restart < 2; ++restart) {
    KillAndRestart();
    CreateSession("mine");
    for (int i = 0; i < 5; ++i) {
      const auto again = Call(*api().run, &RunStub::SubmitRun,
                              SubmitRequest(session, Noops(1), absl::StrCat("run-", i)));
      if (i < 3) {
        EXPECT_THAT(again, HasReason(reason::kRunIdUsed)) << i;
      } else {
        ASSERT_THAT(again, IsOk()) << i;
        EXPECT_EQ(again->state(), v1::Run::SUCCEEDED);
      }
    }
    EXPECT_EQ(GetChip(api(), 0).completed_tasks(), 0u);
  }
}

TEST_F(RestartTest, ADamagedJournalIsKeptAsideAndWhatIsIntactIsKnown) {
  const std::string session = MakeSession(api());
  for (int i = 0; i < 20; ++i) {
    Submit(api(), session, Noops(1), absl::StrCat("run-", i));
    WaitForRun(api(), absl::StrCat(session, "/runs/run-", i));
  }
  daemon_.Kill();
  const std::string file = JournalFiles().back();
  {
    std::fstream damage(file, std::ios::in | std::ios::out | std::ios::binary);
    damage << "damage";
    // One of the two records of a run.
    damage.seekp(static_cast<std::streamoff>(ReadFile(file).find("run-1")));
    damage << "wrong";
  }
  daemon_.Restart();
  EXPECT_TRUE(daemon_.IsServing("pto.v1.RunService"));
  EXPECT_TRUE(std::filesystem::exists(file + ".corrupt"));
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(daemon_.Log(), "is damaged"); }));
  for (int i = 0; i < 20; ++i) {
    const v1::Run run = GetRun(api(), absl::StrCat(session, "/runs/run-", i));
    EXPECT_TRUE(run.state() == v1::Run::SUCCEEDED || run.state() == v1::Run::FAILED) << i;
  }
  // A start after that finds no damage.
  KillAndRestart();
  EXPECT_THAT(JournalFiles(), SizeIs(2));
}

TEST_F(RestartTest, ADirectoryStaysLockedWithoutItsLockFile) {
  std::filesystem::remove(state_ + "/lock");
  const Directory other;
  Process::Options options;
  options.command = {Runfile("daemon/ptod"), "--listen=unix:" + other.path() + "/s",
                     "--sim-chips=1", "--state-dir=" + state_};
  options.out = options.err = other.path() + "/log";
  Process second(options);
  const absl::optional<int> status = second.Wait(absl::Seconds(30));
  ASSERT_TRUE(status.has_value());
  EXPECT_NE(*status, 0);
  EXPECT_THAT(ReadFile(other.path() + "/log"), HasSubstr("INSTANCE_RUNNING"));
}

TEST_F(RestartTest, AFullDiskRefusesRunsUntilThereIsRoom) {
  const std::string session = MakeSession(api());
  const std::string spin = Submit(api(), session, Spin(absl::Minutes(10)), "spin").name();
  // To the daemon, a full disk is a failing write.
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

}  // namespace
}  // namespace pto::testing

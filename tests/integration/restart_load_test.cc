// Daemons with a state directory that are killed, drained or stopped while clients submit as fast
// as they can: every accepted run has one outcome and is executed once.

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
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
#include "tests/harness/holdings.h"
#include "tests/harness/process.h"
#include "tests/harness/runfile.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/lifecycle.h"
#include "tests/integration/restart_testing.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using RunStub = v1::RunService::Stub;
using ::testing::SizeIs;
using RestartLoadTest = RestartTest;

// Clients that submit as fast as they can, and the answers that they got.
class Load {
 public:
  struct Told {
    v1::SubmitRunRequest request;
    bool accepted = false;
    v1::Run::State state = v1::Run::STATE_UNSPECIFIED;  // as last reported
  };

  Load(Api& api, std::vector<std::string> sessions, int round)
      : sessions_(std::move(sessions)), told_(sessions_.size()) {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      threads_.emplace_back([this, &api, i, round] { Run(api, i, round); });
    }
  }

  // Waits until all have noticed that the daemon has gone.
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
      // Some are still running when the daemon ends.
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

// Holds windows, and buffers that are mapped into this process.
class Holder {
 public:
  explicit Holder(const std::string& address)
      : client_(Client::Connect(address).value()), session_(client_.CreateSession().value()) {
    DomainSpec spec;
    spec.id = "windows";
    spec.chips = {0};
    spec.signal_count = 4;
    EXPECT_THAT(session_.CreateDomain(spec), IsOk());
    mapped_.emplace(session_.CreateBuffer("mapped", 0, 1 << 20)->Map().value());
    mapped_->bytes()[0] = kMark;
  }
  // Mapped memory stays readable, whatever happens to the daemon.
  bool CanRead() const { return mapped_->bytes()[0] == kMark; }

 private:
  static constexpr std::byte kMark{42};
  Client client_;
  Session session_;
  absl::optional<MappedBuffer> mapped_;
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

TEST_F(RestartLoadTest, KilledAtAnyTimeEveryAcceptedRunHasOneAnswerAndOneExecution) {
  constexpr int kClients = 4;
  std::mt19937 random(::testing::UnitTest::GetInstance()->random_seed() + 1);
  std::map<std::string, std::string> answers;  // of all boots so far
  std::vector<std::string> names;
  uint64_t accepted = 0;
  uint64_t lost = 0;
  const absl::StatusOr<Holdings> baseline = LookAt(daemon_);
  ASSERT_THAT(baseline, IsOk());
  for (int round = 0; round < Restarts(); ++round) {
    std::vector<std::string> sessions;
    for (int i = 0; i < kClients; ++i) {
      // Half of the sessions return with the same id.
      sessions.push_back(CreateSession(i % 2 == 0 ? absl::StrCat("same-", i)
                                                  : absl::StrCat("round-", round, "-", i)));
    }
    MakeBuffer(api(), sessions[0], "held", 1 << 20);
    // Only sometimes, because it takes a second to notice that the daemon was restarted.
    std::unique_ptr<Holder> holder;
    if (round % 10 == 0) holder = std::make_unique<Holder>(daemon_.address());
    Load load(api(), sessions, round);
    // Shortly after some runs were accepted, so that there is something to lose.
    const uint64_t enough = 1 + random() % 100;
    EXPECT_TRUE(Eventually([&] { return load.accepted() >= enough; }));
    daemon_.Kill();
    const std::vector<Load::Told> told = load.Finish();
    daemon_.Restart();
    if (holder != nullptr) {
      EXPECT_TRUE(holder->CanRead());
    }
    holder.reset();
    // Nothing of the former boot is left except its journal, in one file.
    AwaitBaseline(daemon_, *baseline, kCallTimeout);
    EXPECT_THAT(JournalFiles(), SizeIs(1));
    for (const Load::Told& one : told) {
      const std::string name = absl::StrCat(one.request.parent(), "/runs/", one.request.run_id());
      v1::GetRunRequest request;
      request.set_name(name);
      const auto now = Call(*api().run, &RunStub::GetRun, request);
      // An unanswered request may have been accepted; then it has an outcome, too.
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
    // Answers do not change in later boots.
    for (int i = 0; i < 20 && !names.empty(); ++i) {
      const std::string& name = names[random() % names.size()];
      EXPECT_EQ(GetRun(api(), name).DebugString(), answers[name]);
    }
    // None of these requests has executed anything.
    EXPECT_EQ(GetChip(api(), 0).completed_tasks(), 0u);
  }
  std::cout << "restarts: " << Restarts() << ", accepted runs: " << accepted
            << ", of which not ended when the daemon was killed: " << lost << "\n";
  EXPECT_GT(accepted, 0u);
  // A clean stop also removes what killed daemons have left.
  daemon_.Stop();
  EXPECT_FALSE(std::filesystem::exists(daemon_.socket_path()));
  EXPECT_FALSE(std::filesystem::exists(daemon_.socket_path() + ".mem"));
  EXPECT_THAT(JournalFiles(), SizeIs(1));
}

TEST_F(RestartLoadTest, KilledWhileItStartsItStartsAgain) {
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
    // At a random time, when it serves or does not serve yet.
    absl::SleepFor(whole * std::uniform_real_distribution<double>(0, 1)(random));
    process.Signal(SIGKILL);
    ASSERT_TRUE(process.Wait(absl::Seconds(30)).has_value());
  }
  daemon_.Restart();
  EXPECT_EQ(GetRun(api(), run).DebugString(), before.DebugString());
  EXPECT_THAT(JournalFiles(), SizeIs(1));
  EXPECT_EQ(GetNode(api()).session_count(), 0u);
}

// ---- clean stops

// Launches a registered graph over one stream until the daemon refuses.
class LaunchLoad {
 public:
  LaunchLoad(Api& api, const std::string& session) : api_(api) {
    v1::RegisterGraphRequest request;
    request.set_parent(session);
    request.set_graph_id("g");
    *request.mutable_graph() = Chain(3);
    EXPECT_THAT(Call(*api.run, &RunStub::RegisterGraph, request), IsOk());
    graph_ = session + "/graphs/g";
    thread_ = std::thread([this] { Run(); });
  }

  // Waits until a launch was refused; returns the accepted ones.
  std::vector<v1::LaunchGraphRequest> Finish() {
    thread_.join();
    return std::move(accepted_);
  }
  uint64_t accepted() const { return count_.load(); }

 private:
  void Run() {
    constexpr int kAtOnce = 8;
    grpc::ClientContext context;
    const auto lane = api_.run->LaunchStream(&context);
    std::vector<v1::LaunchGraphRequest> sent;
    bool refused = false;
    while (!refused) {
      const size_t begin = sent.size();
      for (int i = 0; i < kAtOnce; ++i) {
        v1::LaunchStreamRequest request;
        request.set_tag(sent.size());
        request.mutable_launch()->set_graph(graph_);
        request.mutable_launch()->set_run_id(absl::StrCat("launch-", sent.size()));
        sent.push_back(request.launch());
        ASSERT_TRUE(lane->Write(request));
      }
      for (size_t i = begin; i < sent.size(); ++i) {
        v1::LaunchCompletion completion;
        ASSERT_TRUE(lane->Read(&completion)) << lane->Finish().error_message();
        if (completion.state() == v1::Run::STATE_UNSPECIFIED) {
          EXPECT_THAT(StatusFromProto(completion.error()), HasReason(reason::kNodeDraining));
          refused = true;
          continue;
        }
        EXPECT_EQ(completion.state(), v1::Run::SUCCEEDED);
        accepted_.push_back(sent[completion.tag()]);
        ++count_;
      }
    }
    lane->WritesDone();
    EXPECT_TRUE(lane->Finish().ok());
  }

  Api& api_;
  std::string graph_;
  std::vector<v1::LaunchGraphRequest> accepted_;
  std::atomic<uint64_t> count_{0};
  std::thread thread_;
};

// Appends segments of tasks to an open run until it is told to commit.
class OpenLoad {
 public:
  static constexpr int kSegmentTasks = 10;

  OpenLoad(Api& api, const std::string& session) : api_(api), session_(session) {
    thread_ = std::thread([this] {
      writer_ = api_.run->StreamRun(&context_, &run_);
      Begin();
      while (!commit_.load()) {
        ASSERT_TRUE(writer_->Write(Segment())) << writer_->Finish().error_message();
        ++segments_;
      }
      End(static_cast<uint64_t>(segments_) * kSegmentTasks);
    });
  }

  // Commits, and returns the run when it has ended.
  absl::StatusOr<v1::Run> Finish() {
    commit_ = true;
    thread_.join();
    if (!status_.ok()) return status_;
    return run_;
  }
  uint64_t segments() const { return segments_.load(); }

  // Begins the same run again, with just enough data to identify it.
  static absl::Status Again(Api& api, const std::string& session) {
    OpenLoad again(api, session, nullptr);
    again.writer_ = api.run->StreamRun(&again.context_, &again.run_);
    again.Begin();
    again.writer_->Write(again.Segment());
    again.End(kSegmentTasks);
    return again.status_;
  }

 private:
  OpenLoad(Api& api, const std::string& session, std::nullptr_t) : api_(api), session_(session) {}

  void Begin() {
    v1::StreamRunRequest request;
    request.mutable_header()->set_parent(session_);
    request.mutable_header()->set_run_id("open");
    writer_->Write(request);
  }
  v1::StreamRunRequest Segment() const {
    v1::StreamRunRequest request;
    if (segments_.load() == 0) {
      // Later segments can use it.
      request.mutable_block()->add_kernels("noop");
      request.mutable_block()->add_chips("chips/0");
    }
    request.mutable_block()->mutable_tasks()->set_first_task(
        static_cast<uint32_t>(segments_.load() * kSegmentTasks));
    for (int i = 0; i < kSegmentTasks; ++i) request.mutable_block()->mutable_tasks()->add_kernel(0);
    return request;
  }
  void End(uint64_t tasks) {
    v1::StreamRunRequest request;
    request.mutable_commit()->set_task_count(tasks);
    writer_->Write(request);
    writer_->WritesDone();
    status_ = FromGrpcStatus(writer_->Finish());
  }

  Api& api_;
  const std::string session_;
  grpc::ClientContext context_;
  v1::Run run_;
  std::unique_ptr<grpc::ClientWriter<v1::StreamRunRequest>> writer_;
  absl::Status status_;
  std::atomic<bool> commit_{false};
  std::atomic<uint64_t> segments_{0};
  std::thread thread_;
};

TEST_F(RestartLoadTest, DrainedAndRestartedUnderLoadNothingIsLostOrExecutedTwice) {
  std::vector<std::string> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(MakeSession(api()));
  const std::string launch_session = MakeSession(api());
  const std::string open_session = MakeSession(api());
  Load load(api(), sessions, 0);
  LaunchLoad launches(api(), launch_session);
  OpenLoad open(api(), open_session);
  EXPECT_TRUE(Eventually(
      [&] { return load.accepted() >= 50 && launches.accepted() >= 50 && open.segments() >= 50; }));

  v1::DrainNodeRequest drain;
  drain.set_reason("an upgrade");
  drain.mutable_grace()->set_seconds(60);
  const auto begin_drain = [&] {
    const auto progress = Call(*api().node, &v1::NodeService::Stub::DrainNode, drain);
    EXPECT_THAT(progress, IsOk());
    return progress->active_run_count();
  };
  begin_drain();
  EXPECT_TRUE(Eventually([&] { return !daemon_.IsServing("pto.v1.RunService"); }));
  const std::vector<Load::Told> told = load.Finish();
  const std::vector<v1::LaunchGraphRequest> launched = launches.Finish();
  // An open run may continue to its end.
  const uint64_t segments_before = open.segments();
  EXPECT_TRUE(Eventually([&] { return open.segments() > segments_before; }));
  const absl::StatusOr<v1::Run> opened = open.Finish();
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ(opened->state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(opened->tasks_done(), open.segments() * OpenLoad::kSegmentTasks);
  EXPECT_TRUE(Eventually([&] { return begin_drain() == 0; }));
  daemon_.Stop();
  daemon_.Restart();

  uint64_t accepted = 0;
  const auto expect_done = [&](const std::string& name, const absl::StatusOr<v1::Run>& again) {
    const v1::Run now = GetRun(api(), name);
    EXPECT_EQ(now.state(), v1::Run::SUCCEEDED) << now.DebugString();
    ASSERT_THAT(again, IsOk()) << name;
    EXPECT_EQ(again->DebugString(), now.DebugString());
    ++accepted;
  };
  for (const Load::Told& one : told) {
    if (!one.accepted) continue;
    expect_done(absl::StrCat(one.request.parent(), "/runs/", one.request.run_id()),
                Call(*api().run, &RunStub::SubmitRun, one.request));
  }
  for (const v1::LaunchGraphRequest& one : launched) {
    expect_done(absl::StrCat(launch_session, "/runs/", one.run_id()),
                Call(*api().run, &RunStub::LaunchGraph, one));
  }
  EXPECT_EQ(GetRun(api(), open_session + "/runs/open").tasks_done(), opened->tasks_done());
  EXPECT_THAT(OpenLoad::Again(api(), open_session), HasReason(reason::kRunIdUsed));
  EXPECT_GE(accepted, 100u);
  EXPECT_EQ(GetChip(api(), 0).completed_tasks(), 0u);
}

TEST_F(RestartLoadTest, StoppedUnderLoadNothingIsLost) {
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

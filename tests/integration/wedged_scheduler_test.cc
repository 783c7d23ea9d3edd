// A daemon whose scheduler never releases a lock, with far more calls waiting for that lock than it
// has threads initially, still explains this.

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/failpoints.h"
#include "tests/harness/ptoctl.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kSubmits = 12;
constexpr int kStreams = 12;
// The number of calls of one method that gRPC delivers even if none of them returns.
constexpr int kArmed = 8;
constexpr absl::Duration kSoon = absl::Seconds(kAddressSanitizer ? 20 : 2);

// The daemon's threads that serve calls.
int ServerThreads(const DaemonProcess& daemon) {
  int count = 0;
  std::error_code error;
  const std::string tasks = absl::StrCat("/proc/", daemon.pid(), "/task");
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += absl::StartsWith(name, "rpc-") ? 1 : 0;
  }
  return count;
}

// A separate client that launches one run on a stream, and waits as long as the scheduler is stuck.
class StreamLauncher {
 public:
  explicit StreamLauncher(const std::string& address) : api_(address) {
    const std::string session = MakeSession(api_);
    v1::RegisterGraphRequest graph;
    graph.set_parent(session);
    graph.set_graph_id("g");
    *graph.mutable_graph() = Noops(1);
    EXPECT_THAT(Call(*api_.run, &v1::RunService::Stub::RegisterGraph, graph), IsOk());
    request_.mutable_launch()->set_graph(absl::StrCat(session, "/graphs/g"));
    context_.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
    stream_ = api_.run->LaunchStream(&context_);
  }
  void Launch() { EXPECT_TRUE(stream_->Write(request_)); }
  void Finish() {
    v1::LaunchCompletion completion;
    EXPECT_TRUE(stream_->Read(&completion));
    EXPECT_EQ(completion.state(), v1::Run::SUCCEEDED) << completion.DebugString();
    EXPECT_TRUE(stream_->WritesDone());
    EXPECT_TRUE(stream_->Finish().ok());
  }

 private:
  Api api_;
  v1::LaunchStreamRequest request_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::LaunchStreamRequest, v1::LaunchCompletion>> stream_;
};

TEST(WedgedSchedulerTest, ManyCallsWaitForItAndOthersAreAnswered) {
  if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  const std::string release = absl::StrCat(::testing::TempDir(), "/wedged-release");
  std::filesystem::remove(release);
  const DaemonFailpoints failpoints(absl::StrCat("engine.scheduler=hold:", release, "*1"));
  DaemonProcess daemon({"--sim-chips=1", "--metrics-listen=127.0.0.1:0"});
  Api& api = daemon.api();
  const std::string session = MakeSession(api);
  const int idle_threads = ServerThreads(daemon);

  std::vector<std::unique_ptr<StreamLauncher>> streams;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<StreamLauncher>(daemon.address()));
  }
  const auto explain_first = [&] {
    const absl::Time asked = absl::Now();
    ProgramResult explained =
        RunPtoctl(daemon.address(), {"runs", "explain", session + "/runs/first"});
    EXPECT_LT(absl::Now() - asked, kSoon);
    return explained;
  };
  const auto submit = [&](const std::string& parent, const std::string& id) {
    return Call(*api.run, &v1::RunService::Stub::SubmitRun, SubmitRequest(parent, Noops(10), id));
  };
  std::vector<std::thread> submits;
  submits.emplace_back([&] { EXPECT_THAT(submit(session, "first"), IsOk()); });
  // Runs that arrive before a thread is stuck might be executed by other threads.
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(explain_first().out, "STALLED"); }));
  for (int i = 1; i < kSubmits; ++i) {
    submits.emplace_back([&, i] {
      v1::SubmitRunRequest request =
          SubmitRequest(MakeSession(api), Noops(1), absl::StrCat("r", i));
      request.mutable_wait()->set_seconds(60);
      const absl::StatusOr<v1::Run> run = Call(*api.run, &v1::RunService::Stub::SubmitRun, request);
      ASSERT_THAT(run, IsOk());
      EXPECT_EQ(run->state(), v1::Run::SUCCEEDED) << run->DebugString();
    });
  }
  for (const auto& stream : streams) stream->Launch();
  // It is not visible from outside which calls wait, but each of them has a thread.
  EXPECT_TRUE(Eventually([&] { return ServerThreads(daemon) > 2 * kArmed; }))
      << ServerThreads(daemon) << " threads, " << idle_threads << " before";

  const absl::Time before = absl::Now();
  EXPECT_TRUE(daemon.IsServing());
  for (int i = 0; i < 2 * kArmed; ++i) EXPECT_EQ(GetChip(api, 0).clusters(), 24u);
  const ProgramResult chips = RunPtoctl(daemon.address(), {"chips", "ls"});
  EXPECT_EQ(chips.exit_code, 0) << chips.err;
  EXPECT_LT(absl::Now() - before, kSoon);
  const ProgramResult explained = explain_first();
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("STALLED"));

  std::ofstream(release) << "go";
  for (std::thread& submit : submits) submit.join();
  for (const auto& stream : streams) stream->Finish();
  std::filesystem::remove(release);
}

// A deadline that has to remove tasks from the locked queue gets stuck itself; other deadlines do
// not.
TEST(WedgedSchedulerTest, DeadlinesOfOtherChipsAndLeasesAreKept) {
  if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  const std::string release = absl::StrCat(::testing::TempDir(), "/deadlines-release");
  std::filesystem::remove(release);
  const DaemonFailpoints failpoints(absl::StrCat("engine.scheduler=hold:", release, "*1"));
  DaemonProcess daemon({"--sim-chips=2", "--stall-after=0s", "--session-min-ttl=10ms"});
  Api& api = daemon.api();
  const std::string session = MakeSession(api);
  std::thread stuck([&] {
    v1::SubmitRunRequest request = SubmitRequest(session, Noops(100), "stuck");
    request.mutable_options()->mutable_timeout()->set_nanos(100'000'000);
    EXPECT_THAT(Call(*api.run, &v1::RunService::Stub::SubmitRun, request), IsOk());
  });
  // Its deadline passes before those of the others, which start later.
  EXPECT_TRUE(Eventually([&] { return GetNode(api).active_run_count() == 1; }));
  v1::SubmitRunRequest request = SubmitRequest(session, Spin(absl::Minutes(10), 1), "other");
  request.mutable_options()->mutable_timeout()->set_nanos(500'000'000);
  ASSERT_THAT(Call(*api.run, &v1::RunService::Stub::SubmitRun, request), IsOk());
  MakeSession(api, absl::Milliseconds(500));

  const absl::Time before = absl::Now();
  const v1::Run other = WaitForRun(api, session + "/runs/other");
  EXPECT_EQ(other.state(), v1::Run::FAILED);
  EXPECT_THAT(other.error().message(), HasSubstr("time of 500ms is up"));
  EXPECT_LT(absl::Now() - before, kSoon);
  EXPECT_TRUE(Eventually([&] { return GetNode(api).session_count() == 1; }));
  EXPECT_LT(absl::Now() - before, kSoon);

  std::ofstream(release) << "go";
  stuck.join();
  EXPECT_THAT(WaitForRun(api, session + "/runs/stuck").error().message(),
              HasSubstr("time of 100ms is up"));
  std::filesystem::remove(release);
}

}  // namespace
}  // namespace pto::testing

// ptod as a process: how it starts, refuses to start and stops, and what its clients notice.

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <regex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/runfile.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/watch.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::HasSubstr;

ProgramResult RunPtod(std::vector<std::string> args) {
  args.insert(args.begin(), Runfile("daemon/ptod"));
  return RunProgram(args);
}

// ---- stopping

// Stops a daemon with this grace while a run spins for `spin`, and returns the run's last state as
// seen by a watcher.
v1::Run::State StopWhileRunning(const std::string& grace, absl::Duration spin) {
  DaemonProcess daemon({"--sim-chips=1", "--drain-grace=" + grace});
  Api& api = daemon.api();
  const std::string session = MakeSession(api);
  const v1::Run run = Submit(api, session, Spin(spin));
  WaitUntilRunning(api, run.name());
  v1::WatchEventsRequest request;
  request.set_parent(session);
  Watch watch(api, request);
  EventLedger ledger;
  v1::EventBatch batch;
  EXPECT_TRUE(watch.Next(&batch));
  ledger.Take(batch);
  daemon.Signal(SIGTERM);
  while (watch.Next(&batch)) ledger.Take(batch);
  // The stream delivers all events, and then the reason of its end.
  EXPECT_THAT(watch.End(), HasReason(reason::kNodeDraining));
  EXPECT_EQ(daemon.WaitForEnd(), 0);
  EXPECT_FALSE(std::filesystem::exists(daemon.socket_path()));
  return ledger.states(run.name()).back();
}

TEST(StopTest, ARunThatOutlastsTheGraceIsCancelled) {
  EXPECT_EQ(StopWhileRunning("100ms", absl::Minutes(10)), v1::Run::CANCELLED);
}

TEST(StopTest, ARunThatEndsWithinTheGraceSucceeds) {
  EXPECT_EQ(StopWhileRunning("1h", absl::Milliseconds(500)), v1::Run::SUCCEEDED);
}

TEST(StopTest, ASecondSignalEndsTheWait) {
  DaemonProcess daemon({"--sim-chips=1", "--drain-grace=1h"});
  Api& api = daemon.api();
  const v1::Run run = Submit(api, MakeSession(api), Spin(absl::Minutes(10)));
  WaitUntilRunning(api, run.name());
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(Eventually([&] { return GetNode(api).draining(); }));
  EXPECT_TRUE(daemon.running());
  daemon.Signal(SIGINT);
  EXPECT_EQ(daemon.WaitForEnd(), 0);
}

TEST(StopTest, AnIdleDaemonStopsAtOnceThoughClientsAreConnected) {
  DaemonProcess daemon({"--sim-chips=1", "--drain-grace=1h"});
  Api& api = daemon.api();
  const std::string session = MakeSession(api);
  v1::WatchEventsRequest request;
  request.set_parent(session);
  request.mutable_progress_interval()->set_nanos(100'000'000);
  Watch watch(api, request);
  grpc::ClientContext context;
  const auto launches = api.run->LaunchStream(&context);
  // These replies show that the daemon knows both streams.
  v1::EventBatch batch;
  ASSERT_TRUE(watch.Next(&batch));
  v1::LaunchCompletion refused;
  ASSERT_TRUE(launches->Write(v1::LaunchStreamRequest()));
  ASSERT_TRUE(launches->Read(&refused));
  const absl::Time start = absl::Now();
  daemon.Stop();
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  while (watch.Next(&batch)) {
  }
  EXPECT_EQ(watch.End().code(), absl::StatusCode::kUnavailable);
  v1::LaunchCompletion completion;
  EXPECT_FALSE(launches->Read(&completion));
  EXPECT_EQ(launches->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// By itself, gRPC can take ten seconds after a large transfer to stop its threads.
TEST(StopTest, ADaemonThatMovedMuchDataStopsAtOnce) {
  constexpr size_t kFloats = (kAddressSanitizer ? 64 : 256) << 18;
  DaemonProcess daemon({"--sim-chips=1"});
  absl::StatusOr<Client> client = Client::Connect(daemon.address());
  ASSERT_THAT(client, IsOk());
  absl::StatusOr<Session> session = client->CreateSession();
  ASSERT_THAT(session, IsOk());
  const absl::StatusOr<Buffer> buffer = session->CreateBuffer("b", 0, kFloats * sizeof(float));
  ASSERT_THAT(buffer, IsOk());
  std::vector<float> data(kFloats, 1.0f);
  ASSERT_THAT(buffer->Write(data), IsOk());
  ASSERT_THAT(buffer->Read(std::span<float>(data)), IsOk());
  const absl::Time start = absl::Now();
  daemon.Stop();
  EXPECT_LT(absl::Now() - start, absl::Seconds(8));
}

// ---- sockets and locks

TEST(StartTest, ASecondDaemonOnTheSameSocketIsRefused) {
  DaemonProcess daemon;
  const ProgramResult second = RunPtod({"--listen=" + daemon.address()});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr(absl::StrCat("(pid ", daemon.pid(), ")")));
  EXPECT_THAT(second.err, HasSubstr(daemon.address()));
  EXPECT_TRUE(daemon.IsServing());
}

TEST(StartTest, ASocketLeftByAKilledDaemonIsTakenOver) {
  DaemonProcess daemon;
  daemon.Kill();
  EXPECT_TRUE(std::filesystem::exists(daemon.socket_path()));
  daemon.Restart();
  EXPECT_TRUE(daemon.IsServing());
}

TEST(StartTest, TheSocketIsForOwnerAndGroup) {
  DaemonProcess daemon;
  struct stat found = {};
  ASSERT_EQ(stat(daemon.socket_path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0660u);
}

TEST(StartTest, AFileThatIsNoSocketIsLeftAlone) {
  const Directory directory;
  WriteFile(directory.path() + "/file", "precious");
  const ProgramResult result = RunPtod({"--listen=unix:" + directory.path() + "/file"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("not a socket"));
  EXPECT_EQ(ReadFile(directory.path() + "/file"), "precious");
}

TEST(StartTest, AStateDirectoryHasOneDaemon) {
  const Directory directory;
  const std::string state = "--state-dir=" + directory.path() + "/state";
  DaemonProcess daemon({state});
  const ProgramResult second = RunPtod({"--listen=unix:" + directory.path() + "/other", state});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr(absl::StrCat("(pid ", daemon.pid(), ")")));
  EXPECT_THAT(second.err, HasSubstr(directory.path() + "/state"));
  daemon.Kill();
  daemon.Restart();
  EXPECT_TRUE(daemon.IsServing());
}

TEST(StartTest, ANodeWithoutChipsServes) {
  DaemonProcess daemon({"--sim-chips=0"});
  EXPECT_TRUE(daemon.IsServing());
  EXPECT_EQ(GetNode(daemon.api()).chip_count(), 0u);
}

// The address of a daemon started with `127.0.0.1:0`. It serves shortly before it logs this.
std::string LoopbackAddress(const DaemonProcess& daemon) {
  std::string address;
  EXPECT_TRUE(Eventually([&] {
    const std::string log = daemon.Log();
    std::smatch match;
    if (!std::regex_search(log, match, std::regex("127\\.0\\.0\\.1:[1-9][0-9]*"))) return false;
    address = match[0].str();
    return true;
  })) << daemon.Log();
  return address;
}

TEST(StartTest, ListensOnLoopbackToo) {
  DaemonProcess daemon({"--sim-chips=1", "--listen=127.0.0.1:0", "--loopback-tcp=trust"});
  const absl::StatusOr<Client> client = Client::Connect(LoopbackAddress(daemon));
  ASSERT_THAT(client, IsOk());
  EXPECT_EQ(client->node().pid(), daemon.pid());
}

TEST(StartTest, APortInUseIsNamed) {
  DaemonProcess daemon({"--sim-chips=1", "--listen=127.0.0.1:0"});
  const std::string address = LoopbackAddress(daemon);
  const ProgramResult second = RunPtod({"--listen=" + address});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr(address));
}

// ---- command line and configuration

TEST(ConfigTest, MistakesAreNamedAndNothingStarts) {
  const struct {
    std::vector<std::string> args;
    const char* said;
  } kMistakes[] = {
      {{"--no-such-flag"}, "no-such-flag"},
      {{"stray"}, "stray"},
      {{"--sim-chips=many"}, "sim_chips.count"},
      {{"--sim-chips=-1"}, "sim_chips.count"},
      {{"--sim-chips=257"}, "sim_chips.count"},
      {{"--sim-memory=1K"}, "sim_chips.memory_bytes"},
      {{"--sim-memory=1X"}, "sim_chips.memory_bytes"},
      {{"--drain-grace=soon"}, "drain_grace"},
      {{"--log-level=loud"}, "log_level"},
      {{"--event-log-bytes=1"}, "event_log_bytes"},
      {{"--max-message-bytes=1M"}, "max_message_bytes"},
      {{"--session-min-ttl=2h"}, "min_ttl"},
      {{"--listen=nowhere"}, "nowhere"},
      {{"--loopback-tcp=all"}, "access.loopback_tcp"},
      {{"--listen=0.0.0.0:0"}, "allow_remote"},
      {{"--listen=[::]:0"}, "allow_remote"},
      {{"--config=/nonexistent/ptod.conf"}, "/nonexistent/ptod.conf"},
  };
  for (const auto& [args, said] : kMistakes) {
    const ProgramResult result = RunPtod(args);
    EXPECT_EQ(result.exit_code, 2) << args[0];
    EXPECT_THAT(result.err, HasSubstr(said));
  }
}

TEST(ConfigTest, AMistakeInTheFileHasItsLine) {
  const Directory directory;
  const std::string path = directory.path() + "/ptod.conf";
  const struct {
    const char* text;
    const char* place;
    const char* said;
  } kMistakes[] = {
      {"log_level: 'info'\nlog_lvel: 'info'\n", ":2:1:", "log_lvel"},
      {"sim_chips {\n  count: 2\n  colour: 'red'\n}\n", ":3:3:", "colour"},
      {"sim_chips { count: 'two' }\n", ":1:", "integer"},
      {"limits {\n", ":2:", ""},
      {"\x01\x02", ":1:", ""},
  };
  for (const auto& [text, place, said] : kMistakes) {
    WriteFile(path, text);
    const ProgramResult result = RunPtod({"--config=" + path});
    EXPECT_EQ(result.exit_code, 2) << text;
    EXPECT_THAT(result.err, HasSubstr(path + place));
    EXPECT_THAT(result.err, HasSubstr(said));
  }
}

TEST(ConfigTest, AFlagWinsOverTheFile) {
  const Directory directory;
  const std::string path = directory.path() + "/ptod.conf";
  WriteFile(path, "sim_chips { count: 3 clusters: 5 }\n");
  DaemonProcess daemon({"--config=" + path, "--sim-chips=1"});
  EXPECT_EQ(GetNode(daemon.api()).chip_count(), 1u);
  EXPECT_EQ(GetChip(daemon.api(), 0).clusters(), 5u);
}

TEST(ConfigTest, WhatIsPrintedIsAConfiguration) {
  const Directory directory;
  const std::string path = directory.path() + "/ptod.conf";
  const ProgramResult first =
      RunPtod({"--listen=unix:/tmp/s", "--sim-chips=3", "--drain-grace=7s", "--print-config"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  WriteFile(path, first.out);
  const ProgramResult second = RunPtod({"--config=" + path, "--print-config"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  // Except for the sources of the values.
  const std::regex comment(" *#.*");
  EXPECT_EQ(std::regex_replace(second.out, comment, ""),
            std::regex_replace(first.out, comment, ""));
  EXPECT_THAT(second.out, HasSubstr("count: 3"));
}

TEST(ConfigTest, TheSampleIsAConfiguration) {
  const ProgramResult result =
      RunPtod({"--config=" + Runfile("deploy/ptod.conf.txtpb"), "--print-config"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(ConfigTest, TellsItsVersionAndItsFlags) {
  const ProgramResult version = RunPtod({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(std::regex_match(version.out, std::regex("[0-9]+\\.[0-9]+\\.[0-9]+.*\n")))
      << version.out;
  const ProgramResult help = RunPtod({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* flag : {"--listen", "--sim-chips", "--drain-grace", "--max-sessions"}) {
    EXPECT_THAT(help.out, HasSubstr(flag));
  }
}

TEST(ConfigTest, LogsOneObjectForEachLineOnRequest) {
  DaemonProcess daemon({"--sim-chips=1", "--log-format=json"});
  MakeSession(daemon.api());
  daemon.Stop();
  const std::vector<std::string> lines = absl::StrSplit(daemon.Log(), '\n', absl::SkipEmpty());
  EXPECT_GE(lines.size(), 3u);
  for (const std::string& line : lines) {
    EXPECT_TRUE(absl::StartsWith(line, "{") && absl::EndsWith(line, "}")) << line;
  }
}

// ---- what clients notice

TEST(ClientTest, ARestartEndsTheSessionAndIsSaid) {
  DaemonProcess daemon;
  absl::StatusOr<Client> client = Client::Connect(daemon.address());
  ASSERT_THAT(client, IsOk());
  absl::StatusOr<Session> session = client->CreateSession();
  ASSERT_THAT(session, IsOk());
  absl::StatusOr<Buffer> buffer = session->CreateBuffer("b", 0, 64);
  ASSERT_THAT(buffer, IsOk());
  absl::StatusOr<EventStream> events = session->Watch();
  ASSERT_THAT(events, IsOk());
  const absl::StatusOr<pto::Run> run = session->Submit(Noops(3));
  ASSERT_THAT(run, IsOk());
  ASSERT_THAT(run->Wait(), IsOk());
  ASSERT_THAT(events->Next(), IsOk());
  daemon.Kill();
  EXPECT_THAT(client->GetNode(), HasReason(reason::kDaemonUnreachable));
  daemon.Restart();
  absl::Status status;
  while (status.ok()) status = events->Next(absl::Seconds(20)).status();
  EXPECT_THAT(status, HasReason(reason::kBootIdChanged));
  EXPECT_THAT(session->Submit(Noops(3)), HasReason(reason::kBootIdChanged));
  EXPECT_THAT(run->Get(), HasReason(reason::kBootIdChanged));
  EXPECT_THAT(buffer->Read<float>(1), HasReason(reason::kBootIdChanged));
  EXPECT_THAT(session->status(), HasReason(reason::kBootIdChanged));
  // The client recovers as soon as it reconnects.
  EXPECT_TRUE(Eventually([&] { return client->CreateSession().ok(); }));
}

TEST(ClientTest, CallsReturnInTimeThoughTheDaemonDoesNotAnswer) {
  DaemonProcess daemon;
  absl::StatusOr<Client> client = Client::Connect(daemon.address());
  ASSERT_THAT(client, IsOk());
  absl::StatusOr<Session> session = client->CreateSession();
  ASSERT_THAT(session, IsOk());
  RunOptions until_ended;
  until_ended.wait = absl::Seconds(60);
  const absl::StatusOr<pto::Run> ended = session->Submit(Noops(1), until_ended);
  ASSERT_THAT(ended, IsOk());
  ASSERT_THAT(StatusOf(ended->snapshot()), IsOk());
  // It knows only the name, so its answers come from the daemon.
  const pto::Run run = session->GetRun(ended->name());
  absl::StatusOr<EventStream> events = session->Watch();
  ASSERT_THAT(events, IsOk());
  daemon.Pause();
  const absl::Duration timeout = absl::Milliseconds(300);
  const absl::Time start = absl::Now();
  EXPECT_THAT(client->GetNode(timeout), HasReason(reason::kClientTimeout));
  EXPECT_THAT(run.Get(timeout), HasReason(reason::kClientTimeout));
  EXPECT_THAT(run.Wait(timeout), HasReason(reason::kClientTimeout));
  EXPECT_THAT(session->Submit(Noops(1), {}, timeout), HasReason(reason::kClientTimeout));
  EXPECT_THAT(events->Next(timeout), HasReason(reason::kClientTimeout));
  ClientOptions options;
  options.connect_timeout = timeout;
  const absl::Status unreachable = Client::Connect(daemon.address(), options).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(unreachable) || absl::IsUnavailable(unreachable))
      << unreachable;
  EXPECT_LT(absl::Now() - start, 6 * timeout + absl::Seconds(20));
  // The end of a run is final: it can be reported without a daemon.
  EXPECT_THAT(ended->Wait(timeout), IsOk());
  daemon.Resume();
  EXPECT_THAT(client->GetNode(), IsOk());
  EXPECT_THAT(run.Get(), IsOk());
  EXPECT_THAT(run.Wait(), IsOk());
  EXPECT_THAT(events->Next(), IsOk());
}

}  // namespace
}  // namespace pto::testing

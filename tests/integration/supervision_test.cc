// What a supervisor, an operator and a shell do to ptod: signals at any time, a log that nobody
// reads, systemd's watchdog.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/api.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/failpoints.h"
#include "tests/harness/process.h"
#include "tests/harness/runfile.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

// A ptod that need not serve, and may end in any way.
class BareDaemon {
 public:
  // The log goes to `log`, a file if empty.
  explicit BareDaemon(const std::string& log = "")
      : log_(log.empty() ? directory_.path() + "/log" : log),
        address_("unix:" + directory_.path() + "/s"),
        process_({.command = {Runfile("daemon/ptod"), "--listen=" + address_, "--sim-chips=1"},
                  .environment = {},
                  .out = directory_.path() + "/out",
                  .err = log_,
                  .append = true}) {}

  Process& process() { return process_; }
  const std::string& address() const { return address_; }
  bool Logs(const std::string& text) const {
    return Eventually([&] { return absl::StrContains(ReadFile(log_), text); });
  }
  std::string Log() const { return ReadFile(log_); }
  bool Serves() const {
    // Otherwise gRPC would wait for seconds before it tries to connect again.
    const auto listens = [&] { return std::filesystem::exists(address_.substr(5)); };
    if (!Eventually(listens)) return false;
    Api api(address_);
    return Eventually([&] {
      return Call(*api.node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest()).ok();
    });
  }

 private:
  const Directory directory_;
  const std::string log_;
  const std::string address_;
  Process process_;
};

// ---- signals

TEST(SignalTest, OnlyThoseThatStopItEndTheDaemon) {
  const Directory directory;
  const std::string config = directory.path() + "/ptod.conf";
  WriteFile(config, "log_level: 'warning'\nstall_after { seconds: 20 }\n");
  DaemonProcess daemon({"--sim-chips=1", "--config=" + config});
  const auto logs = [&](const std::string& text) {
    EXPECT_TRUE(Eventually([&] { return absl::StrContains(daemon.Log(), text); })) << text;
  };
  // Of the levels, this one shows what follows.
  WriteFile(config, "log_level: 'info'\nstall_after { seconds: 30 }\n");
  daemon.Signal(SIGHUP);
  logs("configuration reloaded changed=log_level");
  logs("need a restart settings=stall_after");
  const absl::StatusOr<v1::Config> in_use =
      Call(*daemon.api().node, &v1::NodeService::Stub::GetConfig, v1::GetConfigRequest());
  ASSERT_THAT(in_use, IsOk());
  EXPECT_THAT(in_use->DebugString(), HasSubstr("\"info\""));
  WriteFile(config, "log_level: 'loud'\n");
  daemon.Signal(SIGHUP);
  logs("was not reloaded");
  daemon.Signal(SIGUSR1);
  logs("logs reopened");
  for (const int signal : {SIGUSR2, SIGQUIT}) {
    daemon.Signal(signal);
    logs(signal == SIGQUIT ? "SIGQUIT" : "SIGUSR2");
  }
  for (const int signal :
       {SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGRTMIN, SIGRTMIN + 7, SIGRTMAX}) {
    daemon.Signal(signal);
    const std::string name = signal >= SIGRTMIN ? absl::StrCat("SIGRTMIN+", signal - SIGRTMIN)
                                                : absl::StrCat("SIG", sigabbrev_np(signal));
    logs(absl::StrCat("ignored a signal signal=", name, "\n"));
  }
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGCHLD, SIGURG, SIGWINCH, SIGCONT}) {
    daemon.Signal(signal);
  }
  for (const int signal : {SIGTSTP, SIGTTIN, SIGTTOU}) {
    daemon.Signal(signal);
    daemon.Signal(SIGCONT);
  }
  EXPECT_EQ(GetNode(daemon.api()).pid(), daemon.pid());
  EXPECT_TRUE(daemon.IsServing());
}

TEST(SignalTest, ThoseThatStopItLetRunsEnd) {
  const Directory directory;
  DaemonProcess daemon(
      {"--sim-chips=1", "--drain-grace=1h", "--state-dir=" + directory.path() + "/state"});
  for (const int signal : {SIGTERM, SIGINT, SIGXCPU}) {
    const v1::Run run =
        Submit(daemon.api(), MakeSession(daemon.api()), Spin(absl::Milliseconds(300)));
    WaitUntilRunning(daemon.api(), run.name());
    daemon.Signal(signal);
    EXPECT_EQ(daemon.WaitForEnd(), 0);
    daemon.Restart();
    EXPECT_EQ(GetRun(daemon.api(), run.name()).state(), v1::Run::SUCCEEDED) << signal;
  }
}

TEST(SignalTest, WhatComesDuringTheStartIsDoneAfterIt) {
  if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  const Directory directory;
  const std::string go = directory.path() + "/go";
  const DaemonFailpoints failpoints("daemon.start=hold:" + go);
  BareDaemon survivor;
  BareDaemon stopped;
  ASSERT_TRUE(survivor.Logs("held by a failpoint") && stopped.Logs("held by a failpoint"));
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGRTMIN}) {
    survivor.process().Signal(signal);
  }
  stopped.process().Signal(SIGTERM);
  WriteFile(go, "go");
  EXPECT_EQ(stopped.process().Wait(kPatience), absl::optional<int>(0)) << stopped.Log();
  EXPECT_THAT(stopped.Log(), HasSubstr("stopping signal=SIGTERM"));
  EXPECT_TRUE(survivor.Serves()) << survivor.Log();
  EXPECT_TRUE(survivor.Logs("configuration reloaded") && survivor.Logs("signal=SIGALRM") &&
              survivor.Logs("signal=SIGRTMIN+0"));
  survivor.process().Signal(SIGTERM);
  EXPECT_EQ(survivor.process().Wait(kPatience), absl::optional<int>(0)) << survivor.Log();
}

TEST(SignalTest, WhatComesDuringTheStopDoesNotChangeItsEnd) {
  // AddressSanitizer looks for leaks at the end, and each signal interrupts that.
  constexpr absl::Duration kPause = absl::Milliseconds(kAddressSanitizer ? 200 : 1);
  DaemonProcess daemon({"--sim-chips=1"});
  // A run makes the stop longer.
  const v1::Run run =
      Submit(daemon.api(), MakeSession(daemon.api()), Spin(absl::Milliseconds(200)));
  WaitUntilRunning(daemon.api(), run.name());
  daemon.Signal(SIGTERM);
  while (daemon.running()) {
    for (const int signal : {SIGHUP, SIGUSR1, SIGALRM, SIGIO, SIGRTMIN}) daemon.Signal(signal);
    // It has much to do besides.
    absl::SleepFor(kPause);
  }
  EXPECT_EQ(daemon.WaitForEnd(), 0);
}

TEST(SignalTest, AFaultEndsItWithItsSignal) {
  for (const int signal : {SIGABRT, SIGTRAP}) {
    BareDaemon daemon;
    ASSERT_TRUE(daemon.Logs("ptod is serving"));
    daemon.process().Signal(signal);
    const absl::optional<int> status = daemon.process().Wait(kPatience);
    ASSERT_TRUE(status.has_value());
    EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == signal) << *status;
  }
}

// ---- the log

TEST(LogTest, AReaderThatDoesNotReadHoldsNothingUp) {
  constexpr int kSessions = 100;
  const Directory directory;
  const std::string fifo = directory.path() + "/log";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int reader = open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_GT(fcntl(reader, F_SETPIPE_SZ, 4096), 0);
  BareDaemon daemon(fifo);
  Api api(daemon.address());
  ASSERT_TRUE(daemon.Serves());
  // Each is a line, so the pipe is soon full.
  for (int i = 0; i < kSessions; ++i) MakeSession(api);
  const absl::Time before = absl::Now();
  EXPECT_EQ(GetNode(api).session_count(), static_cast<uint64_t>(kSessions));
  EXPECT_LT(absl::Now() - before, absl::Seconds(5));

  // The reader reads again: nothing was lost.
  std::string log;
  const auto created = [&] {
    char bytes[4096];
    for (ssize_t got = 0; (got = read(reader, bytes, sizeof bytes)) > 0;) {
      log.append(bytes, static_cast<size_t>(got));
    }
    size_t count = 0;
    for (size_t at = 0; (at = log.find("session created", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_TRUE(Eventually([&] { return created() == kSessions; })) << created() << "\n" << log;

  // It stops reading for ever. The end of each session is a line too.
  daemon.process().Signal(SIGTERM);
  EXPECT_EQ(daemon.process().Wait(kPatience), absl::optional<int>(0));
  close(reader);
}

// ---- systemd

// A socket to which a service reports, as systemd has it.
class FakeSystemd {
 public:
  explicit FakeSystemd(const std::string& path) : fd_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);  // NOLINT: one thread
  }
  ~FakeSystemd() {
    unsetenv("NOTIFY_SOCKET");  // NOLINT: one thread
    unsetenv("WATCHDOG_USEC");  // NOLINT: one thread
    close(fd_);
  }
  static void AskForHeartbeats(absl::Duration period) {
    setenv("WATCHDOG_USEC", absl::StrCat(absl::ToInt64Microseconds(period)).c_str(), 1);  // NOLINT
  }
  // The next report; empty if there is none in time.
  std::string Receive(absl::Duration timeout = kPatience) const {
    pollfd readable = {fd_, POLLIN, 0};
    if (poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) != 1) return "";
    char text[512];
    const ssize_t size = recv(fd_, text, sizeof text, 0);
    return std::string(text, size > 0 ? static_cast<size_t>(size) : 0);
  }

 private:
  const int fd_;
};

// Whether the daemon has a thread of that name.
bool HasThread(const DaemonProcess& daemon, const std::string& name) {
  for (const auto& task :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", daemon.pid(), "/task"))) {
    std::string found;
    std::getline(std::ifstream(task.path() / "comm"), found);
    if (found == name) return true;
  }
  return false;
}

TEST(WatchdogTest, HeartbeatsStopWhenTheDaemonDoesNotAnswer) {
  if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  const Directory directory;
  const std::string go = directory.path() + "/go";
  const FakeSystemd systemd(directory.path() + "/notify");
  FakeSystemd::AskForHeartbeats(absl::Seconds(3));
  // Every question after the second one is stuck.
  const DaemonFailpoints failpoints(absl::StrCat("health.check=hold:", go, "@2"));
  DaemonProcess daemon({"--sim-chips=1"});
  EXPECT_THAT(systemd.Receive(), HasSubstr("READY=1"));
  EXPECT_EQ(systemd.Receive(), "WATCHDOG=1\n");
  EXPECT_EQ(systemd.Receive(), "WATCHDOG=1\n");
  EXPECT_EQ(systemd.Receive(absl::Milliseconds(2500)), "") << "it hangs and says that it is well";
  EXPECT_EQ(GetNode(daemon.api()).pid(), daemon.pid());
  EXPECT_TRUE(Eventually(
      [&] { return absl::StrContains(daemon.Log(), "the daemon does not answer itself"); }));
  WriteFile(go, "go");
  EXPECT_EQ(systemd.Receive(), "WATCHDOG=1\n");
  daemon.Signal(SIGTERM);
  std::string last;
  while (last.empty() || last == "WATCHDOG=1\n") last = systemd.Receive();
  EXPECT_THAT(last, HasSubstr("STOPPING=1"));
  daemon.WaitForEnd();
}

TEST(WatchdogTest, AStoppedProcessIsSilent) {
  const Directory directory;
  const FakeSystemd systemd(directory.path() + "/notify");
  FakeSystemd::AskForHeartbeats(absl::Milliseconds(600));
  DaemonProcess daemon({"--sim-chips=1"});
  EXPECT_THAT(systemd.Receive(), HasSubstr("READY=1"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(systemd.Receive(), "WATCHDOG=1\n");
  daemon.Pause();
  // What was sent before.
  while (!systemd.Receive(absl::ZeroDuration()).empty()) {
  }
  EXPECT_EQ(systemd.Receive(absl::Milliseconds(700)), "");
  daemon.Resume();
  EXPECT_EQ(systemd.Receive(), "WATCHDOG=1\n");
}

TEST(WatchdogTest, NobodyIsAskedWithoutOne) {
  const Directory directory;
  const FakeSystemd systemd(directory.path() + "/notify");
  DaemonProcess daemon({"--sim-chips=1"});
  EXPECT_THAT(systemd.Receive(), HasSubstr("READY=1"));
  EXPECT_TRUE(HasThread(daemon, "log-writer"));
  EXPECT_FALSE(HasThread(daemon, "watchdog"));
}

TEST(UnitTest, TheServiceIsRestartedForEver) {
  const std::string unit = ReadFile(Runfile("deploy/ptod.service"));
  for (const char* line : {"\nRestart=always\n", "\nStartLimitIntervalSec=0\n", "\nRestartSec=",
                           "\nWatchdogSec=", "\nExecReload=/bin/kill -HUP $MAINPID\n"}) {
    EXPECT_THAT(unit, HasSubstr(line));
  }
}

// It was 1.5 before there were clients to tell apart; smaller is better.
TEST(UnitTest, TheSandboxIsNoWiderThanItWas) {
  constexpr char kAnalyze[] = "/usr/bin/systemd-analyze";
  if (!std::filesystem::exists(kAnalyze)) GTEST_SKIP() << "systemd is not installed";
  const ProgramResult result = RunProgram({kAnalyze, "security", "--offline=true", "--no-pager",
                                           "--threshold=14", Runfile("deploy/ptod.service")});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

}  // namespace
}  // namespace pto::testing

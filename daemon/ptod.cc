// ptod: the daemon.

#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "daemon/config/command_line.h"
#include "daemon/daemon.h"
#include "daemon/shell/signal_waiter.h"
#include "daemon/shell/systemd_notifier.h"
#include "daemon/version.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/log.h"

namespace pto::daemon {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// Beyond the grace of a drain: for kernels that were told to stop to return.
constexpr absl::Duration kKernelGrace = absl::Seconds(5);

void PrintError(const absl::Status& status) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  std::string text = absl::StrCat("ptod: ", std::string(status.message()));
  if (detail.has_value()) {
    absl::StrAppend(&text, " (", detail->reason, ")");
    if (!detail->hint.empty()) absl::StrAppend(&text, "\n  hint: ", detail->hint);
    if (!detail->help.empty()) absl::StrAppend(&text, "\n  more: ", detail->help);
  }
  std::fprintf(stderr, "%s\n", text.c_str());
}

void LogNotify(const absl::Status& status) {
  if (!status.ok()) PTO_LOG(kWarning, "systemd was not notified", {{"error", status.ToString()}});
}

int Serve(const EffectiveConfig& effective, SignalWaiter& signals) {
  const config::v1::DaemonConfig& config = effective.config;
  absl::StatusOr<std::unique_ptr<Daemon>> started = Daemon::Start(effective);
  if (!started.ok()) {
    PrintError(started.status());
    return kExitFailed;
  }
  Daemon& daemon = **started;
  const SystemdNotifier systemd = SystemdNotifier::FromEnvironment();
  const std::string addresses = absl::StrJoin(daemon.addresses(), ", ");
  PTO_LOG(kInfo, "ptod is serving",
          {{"version", kVersion},
           {"listen", addresses},
           {"metrics", daemon.metrics_address()},
           {"chips", config.sim_chips().count()},
           {"boot_id", daemon.node().boot_id()}});
  LogNotify(systemd.Ready(absl::StrCat("serving on ", addresses)));

  int signal = signals.Wait();
  for (; signal == SIGQUIT; signal = signals.Wait()) daemon.Dump("SIGQUIT");
  PTO_LOG(kInfo, "stopping", {{"signal", strsignal(signal)}});
  LogNotify(systemd.Stopping("draining"));
  daemon.BeginDrain(absl::StrCat("ptod received ", strsignal(signal)));
  // In steps, so that a second signal ends the wait.
  const absl::Time until = absl::Now() + absl::Seconds(config.drain_grace().seconds()) +
                           absl::Nanoseconds(config.drain_grace().nanos());
  while (!daemon.WaitDrained(absl::Milliseconds(50)) && absl::Now() < until) {
    const absl::optional<int> next = signals.WaitFor(absl::ZeroDuration());
    if (next == SIGQUIT) {
      daemon.Dump("SIGQUIT");
    } else if (next.has_value()) {
      PTO_LOG(kWarning, "a second signal: not waiting any longer", {});
      break;
    }
  }
  daemon.CancelRuns();
  if (!daemon.WaitIdle(kKernelGrace)) {
    PTO_LOG(kError, "a kernel does not return: exiting without it", {});
    // Nothing can be taken down in order under a kernel that runs.
    _exit(kExitFailed);
  }
  daemon.Stop();
  started->reset();
  PTO_LOG(kInfo, "stopped", {});
  return 0;
}

int Main(int argc, char** argv) {
  // Threads come and go; arenas for each of them would only keep memory that nobody uses. One
  // also grows in steps of our choice, where others ask the kernel for each page.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TOP_PAD, 1 << 20);
  // Debian's Abseil looks for deadlocks at every lock, in gRPC's code too, unless it is told not
  // to: a third of the time that a launch takes.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  absl::StatusOr<CommandLine> command = ParseCommandLine(argc, argv, kVersion);
  if (!command.ok()) {
    PrintError(command.status());
    return kExitUsage;
  }
  if (command->action == CommandLine::Action::kPrint) {
    std::fputs(command->text.c_str(), stdout);
    return 0;
  }
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  ParseLogLevel(command->effective.config.log_level(), &level);
  ParseLogFormat(command->effective.config.log_format(), &format);
  SetLog(level, format);
  // A limit on the size of files is a write that fails, no reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  if (const char* const failpoints = std::getenv("PTOD_FAILPOINTS")) {
    const absl::Status set = failpoint::Set(failpoints);
    if (!set.ok()) {
      PrintError(set);
      return kExitUsage;
    }
    PTO_LOG(kWarning, "failpoints are set", {{"failpoints", failpoints}});
  }
  // Before any thread: all of them inherit the mask.
  SignalWaiter signals;
  return Serve(command->effective, signals);
}

}  // namespace
}  // namespace pto::daemon

int main(int argc, char** argv) { return pto::daemon::Main(argc, argv); }

// ptod: the daemon.

#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

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
#include "daemon/health/self_check.h"
#include "daemon/library_log.h"
#include "daemon/rpc/net/connections.h"
#include "daemon/shell/inherited_sockets.h"
#include "daemon/shell/parent_watch.h"
#include "daemon/shell/signal_waiter.h"
#include "daemon/shell/systemd_notifier.h"
#include "daemon/shell/watchdog.h"
#include "daemon/version.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/log.h"
#include "runtime/base/log_writer.h"
#include "runtime/host/host_main.h"
#include "runtime/host/object_loader.h"

namespace pto::daemon {
namespace {

// The only argument of this program when it is to be a kernel host.
constexpr absl::string_view kKernelHostArgument = "--kernel-host";

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// Beyond the grace of a drain: for kernels that were told to stop to return.
constexpr absl::Duration kKernelGrace = absl::Seconds(5);
// Within which the daemon must answer the watchdog, which also delays a stop by as much.
constexpr absl::Duration kAnswerTime = absl::Seconds(5);
// For the last lines of the log to be written.
constexpr std::chrono::milliseconds kLogGrace(1000);

// What the program was started with, for reading the configuration again.
struct Arguments {
  int count = 0;
  const char* const* values = nullptr;
};

void PrintError(const absl::Status& status) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  std::string text = absl::StrCat("ptod: ", std::string(status.message()));
  if (detail.has_value()) {
    absl::StrAppend(&text, " (", detail->reason, ")");
    if (!detail->hint.empty()) absl::StrAppend(&text, "\n  hint: ", detail->hint);
    if (!detail->help.empty()) absl::StrAppend(&text, "\n  more: ", detail->help);
  }
  LogWriter::Write(text + "\n");
}

void LogNotify(const absl::Status& status) {
  if (!status.ok()) PTO_LOG(kWarning, "systemd was not notified", {{"error", status.ToString()}});
}

void Reload(Daemon& daemon, const Arguments& arguments) {
  absl::StatusOr<CommandLine> command =
      ParseCommandLine(arguments.count, arguments.values, kVersion);
  const absl::Status status = command.ok() ? daemon.Reload(command->effective) : command.status();
  if (!status.ok()) {
    PTO_LOG(kError, "the configuration was not reloaded completely",
            {{"error", status.ToString()}});
  }
}

// Does what a signal asks for. Returns whether the daemon has to stop.
bool Obey(int signal, Daemon& daemon, const Arguments& arguments) {
  const std::string name = SignalName(signal);
  switch (ActionOf(signal)) {
    case SignalAction::kStop:
      return true;
    case SignalAction::kReload:
      PTO_LOG(kInfo, "reloading the configuration", {{"signal", name}});
      Reload(daemon, arguments);
      return false;
    case SignalAction::kReopenLogs:
      daemon.ReopenLogs();
      return false;
    case SignalAction::kDump:
      daemon.Dump(name);
      return false;
    case SignalAction::kIgnore:
      PTO_LOG(kWarning, "ignored a signal", {{"signal", name}});
      return false;
  }
  return false;
}

// Feeds systemd's watchdog if there is one; nullptr if not.
std::unique_ptr<Watchdog> StartWatchdog(const Daemon& daemon, const SystemdNotifier& systemd) {
  const absl::optional<absl::Duration> period = Watchdog::PeriodFromEnvironment();
  if (!period.has_value()) return nullptr;
  Watchdog::Options options;
  options.period = *period;
  options.ask = [check = std::make_shared<SelfCheck>(daemon.addresses())](absl::Duration timeout) {
    return check->Ask(std::min(timeout, kAnswerTime));
  };
  options.beat = [&systemd] { LogNotify(systemd.Alive()); };
  return std::make_unique<Watchdog>(std::move(options));
}

int Serve(const EffectiveConfig& effective, const Arguments& arguments, SignalWaiter& signals,
          InheritedSockets inherited) {
  const config::v1::DaemonConfig& config = effective.config;
  // This program, also when its file has been replaced meanwhile.
  absl::StatusOr<std::unique_ptr<Daemon>> started = Daemon::Start(
      effective, {{"/proc/self/exe", std::string(kKernelHostArgument)}, {}}, std::move(inherited));
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
  std::unique_ptr<Watchdog> watchdog = StartWatchdog(daemon, systemd);

  // Signals that came during the start are among these.
  int signal = signals.Wait();
  while (!Obey(signal, daemon, arguments)) signal = signals.Wait();
  PTO_LOG(kInfo, "stopping", {{"signal", SignalName(signal)}});
  LogNotify(systemd.Stopping("draining"));
  daemon.BeginDrain(absl::StrCat("ptod received ", SignalName(signal)));
  // In steps, so that a second signal ends the wait.
  const absl::Time until = absl::Now() + absl::Seconds(config.drain_grace().seconds()) +
                           absl::Nanoseconds(config.drain_grace().nanos());
  while (!daemon.WaitDrained(absl::Milliseconds(50)) && absl::Now() < until) {
    const absl::optional<int> next = signals.WaitFor(absl::ZeroDuration());
    if (next.has_value() && Obey(*next, daemon, arguments)) {
      PTO_LOG(kWarning, "a second signal: not waiting any longer", {{"signal", SignalName(*next)}});
      break;
    }
  }
  // From here on signals are not looked at: everything below ends in time.
  daemon.CancelRuns();
  watchdog.reset();
  if (!daemon.WaitIdle(kKernelGrace)) {
    PTO_LOG(kError, "a kernel does not return: exiting without it", {});
    LogWriter::Flush(kLogGrace);
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
  // The mappings of a process are limited. Beyond these, large blocks come from the heap, too.
  mallopt(M_MMAP_MAX, 8192);
  // Debian's Abseil looks for deadlocks at every lock, in gRPC's code too, unless it is told not
  // to: a third of the time that a launch takes.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const Arguments arguments{argc, argv};
  absl::StatusOr<CommandLine> command = ParseCommandLine(argc, argv, kVersion);
  if (!command.ok()) {
    PrintError(command.status());
    return kExitUsage;
  }
  if (command->action == CommandLine::Action::kPrint) {
    std::fputs(command->text.c_str(), stdout);
    return 0;
  }
  absl::StatusOr<InheritedSockets> inherited = InheritedSockets::FromEnvironment();
  if (!inherited.ok()) {
    PrintError(inherited.status());
    return kExitFailed;
  }
  // Before any thread: all of them inherit the mask. Never destroyed: a signal that comes during
  // the last steps of the process must not change how it ends.
  static SignalWaiter* const signals = new SignalWaiter;
  const LogWriter log;
  LogForLibraries();
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  ParseLogLevel(command->effective.config.log_level(), &level);
  ParseLogFormat(command->effective.config.log_format(), &format);
  SetLog(level, format);
  if (const char* const failpoints = std::getenv("PTOD_FAILPOINTS")) {
    const absl::Status set = failpoint::Set(failpoints);
    if (!set.ok()) {
      PrintError(set);
      return kExitUsage;
    }
    PTO_LOG(kWarning, "failpoints are set", {{"failpoints", failpoints}});
  }
  rpc::RaiseDescriptorLimit();
  std::unique_ptr<ParentWatch> parent;
  if (command->exit_with != 0) {
    absl::StatusOr<std::unique_ptr<ParentWatch>> watch = ParentWatch::Start(command->exit_with, [] {
      PTO_LOG(kInfo, "the process that started ptod has ended", {});
      kill(getpid(), SIGTERM);
    });
    if (!watch.ok()) {
      PrintError(watch.status());
      return kExitUsage;
    }
    parent = *std::move(watch);
  }
  return Serve(command->effective, arguments, *signals, *std::move(inherited));
}

// When the machine has no memory left, kernels of users go before the daemon.
void OfferToOomKiller() {
  std::FILE* const file = std::fopen("/proc/self/oom_score_adj", "we");
  if (file == nullptr) return;
  std::fputs("800", file);
  std::fclose(file);
}

}  // namespace
}  // namespace pto::daemon

int main(int argc, char** argv) {
  // The process of a session's own kernels: before anything of the daemon begins.
  if (argc == 2 && argv[1] == pto::daemon::kKernelHostArgument) {
    pto::daemon::OfferToOomKiller();
    return pto::host::RunHost(&pto::host::LoadObject);
  }
  return pto::daemon::Main(argc, argv);
}

#include "daemon/shell/signal_waiter.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace pto::daemon {
namespace {

// Signals that keep their meaning.
constexpr int kLeftAlone[] = {
    SIGABRT, SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGSYS,   SIGTRAP,  // faults
    SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGWINCH, SIGURG,   // not deadly
    SIGPIPE, SIGXFSZ,                                                // ignored below
    SIGKILL, SIGSTOP,
};

bool IsLeftAlone(int signal) {
  if (std::find(std::begin(kLeftAlone), std::end(kLeftAlone), signal) != std::end(kLeftAlone)) {
    return true;
  }
  struct sigaction found = {};
  return sigaction(signal, nullptr, &found) != 0 ||
         (found.sa_handler != SIG_DFL && found.sa_handler != SIG_IGN);
}

}  // namespace

SignalAction ActionOf(int signal) {
  switch (signal) {
    case SIGTERM:
    case SIGINT:
    // After more CPU time than RLIMIT_CPU allows; the kernel kills the process a little later.
    case SIGXCPU:
      return SignalAction::kStop;
    case SIGHUP:
      return SignalAction::kReload;
    case SIGUSR1:
      return SignalAction::kReopenLogs;
    case SIGQUIT:
    case SIGUSR2:
      return SignalAction::kDump;
    default:
      return SignalAction::kIgnore;
  }
}

std::string SignalName(int signal) {
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) {
    return absl::StrCat("SIGRTMIN+", signal - SIGRTMIN);
  }
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

SignalWaiter::SignalWaiter() {
  sigemptyset(&signals_);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    // sigaddset refuses the two that the C library uses itself.
    if (!IsLeftAlone(signal)) sigaddset(&signals_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_before_);
  sigaction(SIGXFSZ, &ignore, &file_size_before_);
}

SignalWaiter::~SignalWaiter() {
  while (WaitFor(absl::ZeroDuration()).has_value()) {
  }
  sigaction(SIGXFSZ, &file_size_before_, nullptr);
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int SignalWaiter::Wait() {
  int signal = 0;
  while (sigwait(&signals_, &signal) != 0) {
  }
  return signal;
}

absl::optional<int> SignalWaiter::WaitFor(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const timespec left = absl::ToTimespec(std::max(deadline - absl::Now(), absl::ZeroDuration()));
    const int signal = sigtimedwait(&signals_, nullptr, &left);
    if (signal > 0) return signal;
    // Other signals cause EINTR, for example those of a debugger.
    if (errno != EINTR) return absl::nullopt;
  }
}

}  // namespace pto::daemon

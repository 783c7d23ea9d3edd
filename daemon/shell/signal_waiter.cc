#include "daemon/shell/signal_waiter.h"

#include <pthread.h>

#include <cerrno>

#include "absl/time/clock.h"

namespace pto::daemon {

SignalWaiter::SignalWaiter() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGQUIT);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_before_);
}

SignalWaiter::~SignalWaiter() {
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

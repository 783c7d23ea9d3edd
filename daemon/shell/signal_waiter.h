#pragma once

#include <signal.h>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace pto::daemon {

// Waits for SIGTERM, SIGINT and SIGQUIT, so that no code runs in a signal handler. Create it before
// any thread starts, because threads inherit the blocked signals. Ignores SIGPIPE: writing to a
// closed connection must return an error, not end the daemon.
class SignalWaiter {
 public:
  SignalWaiter();
  // Restores the calling thread's mask and SIGPIPE.
  ~SignalWaiter();
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Waits for one of them and returns it.
  int Wait();
  // Like Wait, but returns nullopt on timeout. A second signal asks the daemon to hurry.
  absl::optional<int> WaitFor(absl::Duration timeout);

 private:
  sigset_t signals_;
  sigset_t before_;
  struct sigaction pipe_before_ = {};
};

}  // namespace pto::daemon

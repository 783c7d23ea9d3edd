#pragma once

#include <signal.h>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace pto {

// Receives SIGTERM, SIGINT and SIGQUIT by waiting for them, so that no code runs in a signal
// handler. Make it before any thread starts: threads inherit that they are blocked. Ignores
// SIGPIPE: a peer that goes is an error of write, not the end of the daemon.
class SignalWaiter {
 public:
  SignalWaiter();
  // Restores the calling thread's mask and SIGPIPE.
  ~SignalWaiter();
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Waits for one of them and returns it.
  int Wait();
  // The same, or nullopt when the time is up. A second signal means to hurry.
  absl::optional<int> WaitFor(absl::Duration timeout);

 private:
  sigset_t signals_;
  sigset_t before_;
  struct sigaction pipe_before_ = {};
};

}  // namespace pto

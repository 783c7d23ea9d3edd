#pragma once

#include <signal.h>

#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace pto::daemon {

// What a signal asks the daemon to do; daemon/README.md has the table.
enum class SignalAction {
  kStop,
  kReload,
  kReopenLogs,
  kDump,
  // Nothing, but the system would end the process.
  kIgnore,
};
SignalAction ActionOf(int signal);

// `SIGHUP`, `SIGRTMIN+2`.
std::string SignalName(int signal);

// Waits for signals, so that no code runs in a signal handler and none of them ends the process by
// itself. Blocks all that can be blocked, except
//   - faults (SIGSEGV, SIGABRT and so on), which must end the process,
//   - job control (SIGTSTP, SIGTTIN, SIGTTOU) and what is harmless anyway (SIGCHLD, SIGWINCH …),
//   - those that have a handler, of a profiler for example.
// Ignores SIGPIPE and SIGXFSZ: writing to a closed connection, or beyond the limit of a file, must
// return an error.
//
// Create it before any thread starts, because threads inherit the blocked signals. Signals that
// come before somebody waits are kept. For one thread.
class SignalWaiter {
 public:
  SignalWaiter();
  // Discards what has come, and restores the calling thread's mask and the two ignored signals. A
  // daemon never does that: the next signal would end it.
  ~SignalWaiter();
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Waits for one of them and returns it.
  int Wait();
  // Like Wait, but returns nullopt on timeout.
  absl::optional<int> WaitFor(absl::Duration timeout);

 private:
  sigset_t signals_;
  sigset_t before_;
  struct sigaction pipe_before_ = {};
  struct sigaction file_size_before_ = {};
};

}  // namespace pto::daemon

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pto::daemon {

// Reports the state of a service of Type=notify to systemd. Does nothing and succeeds if systemd
// did not start the daemon. Thread-safe.
//
// Implements the protocol itself, one datagram per message, because libsystemd would add half a
// dozen compression and encryption libraries to the release binary.
class SystemdNotifier {
 public:
  // `socket` is the value of NOTIFY_SOCKET: a path, or a name behind '@'; may be empty.
  explicit SystemdNotifier(std::string socket) : socket_(std::move(socket)) {}
  static SystemdNotifier FromEnvironment();

  // The daemon serves. `status` is a line for `systemctl status`.
  absl::Status Ready(absl::string_view status) const;
  // The daemon has begun to stop.
  absl::Status Stopping(absl::string_view status) const;
  // The daemon is well; see Watchdog.
  absl::Status Alive() const;

 private:
  absl::Status SendState(absl::string_view state, absl::string_view status) const;
  absl::Status Send(absl::string_view message) const;
  std::string socket_;
};

}  // namespace pto::daemon

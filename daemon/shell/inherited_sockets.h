#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto::daemon {

// Sockets that listen already when the process starts: systemd opens those of a socket unit, and
// passes them as descriptors 3, 4 and so on (sd_listen_fds). Clients can connect before the daemon
// is there and while it restarts. For one thread.
class InheritedSockets {
 public:
  InheritedSockets() = default;

  // Takes what LISTEN_FDS and LISTEN_PID announce, once: both are removed from the environment, so
  // that no other process takes them too. Nothing if they are not for this process. Error:
  // LISTEN_FAILED for a descriptor that is no listening stream socket.
  static absl::StatusOr<InheritedSockets> FromEnvironment();
  // The same, of `count` descriptors from `first` on.
  static absl::StatusOr<InheritedSockets> Take(int first, int count);

  // The socket that is bound to the address, `unix:/path` or `127.0.0.1:7000`. The caller then owns
  // it. -1 if there is none, or no more.
  int Claim(absl::string_view address);
  // The addresses that nobody has claimed.
  std::vector<std::string> unclaimed() const;

 private:
  struct Socket {
    std::string address;
    int file = -1;  // -1: claimed
  };
  std::vector<Socket> sockets_;
};

}  // namespace pto::daemon

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/rpc/net/peer.h"

namespace pto::daemon::rpc {

// The sockets that listen at one address. A name can stand for several.
class Listener {
 public:
  // `address` is `unix:/path`, `host:port` or `[v6]:port`. A port may be 0. Or it is what Adopted
  // has returned, so that all kinds fit into one list. Error: LISTEN_FAILED.
  static absl::StatusOr<Listener> Bind(const std::string& address);
  // Stands for a socket that listens already at `address`. Bind takes over the descriptor.
  static std::string Adopted(int file, const std::string& address);
  // Closes the sockets and removes the socket file, unless somebody else has made it.
  ~Listener();
  Listener(Listener&& other) noexcept
      : address_(std::move(other.address_)),
        path_(std::exchange(other.path_, "")),
        files_(std::exchange(other.files_, {})) {}
  Listener& operator=(Listener&&) = delete;

  // As bound, with the real port.
  const std::string& address() const { return address_; }
  const std::vector<int>& files() const { return files_; }

 private:
  Listener() = default;
  absl::Status BindUnix(const std::string& path);
  absl::Status BindTcp(const std::string& address);

  std::string address_;
  std::string path_;  // of a unix socket
  std::vector<int> files_;
};

// Who is at the other end of a connected socket.
Peer PeerOfSocket(int file);

}  // namespace pto::daemon::rpc

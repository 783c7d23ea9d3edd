#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto::daemon {

// A place to listen: the path of a unix socket, or a host and a TCP port. A value.
class ListenAddress {
 public:
  // Accepts `unix:/path` (or `unix:///path`), `host:port` and `[v6]:port`. Does not look
  // anything up. Errors: CONFIG_INVALID, with what was expected.
  static absl::StatusOr<ListenAddress> Parse(absl::string_view text);

  bool is_unix() const { return !path_.empty(); }
  // Of a unix socket.
  const std::string& path() const { return path_; }
  // Of a TCP address, without brackets.
  const std::string& host() const { return host_; }
  uint16_t port() const { return port_; }

  // Whether only this machine can connect: a unix socket or a loopback address. A name other
  // than `localhost` counts as remote, since what it means can change.
  bool IsLocal() const;

  // The form that gRPC takes.
  std::string ToString() const;

 private:
  ListenAddress() = default;
  std::string path_;
  std::string host_;
  uint16_t port_ = 0;
};

}  // namespace pto::daemon

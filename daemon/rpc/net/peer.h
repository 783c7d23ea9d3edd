#pragma once

#include <cstdint>
#include <string>

namespace pto::daemon::rpc {

// Who is at the other end of a connection, as the operating system or TLS tells it; nothing in it
// is what the client says of itself.
struct Peer {
  enum class Transport : uint8_t { kUnknown, kUnix, kTcp, kTls };

  Transport transport = Transport::kUnknown;
  uint64_t connection = 0;  // never reused; 0: not known
  // Of the process that connected, when it did. Only of unix sockets.
  uint32_t uid = 0;
  uint32_t gid = 0;
  int32_t pid = 0;
  // The name in the client's certificate. Only of TLS; empty without a certificate.
  std::string certificate;
  // Why that certificate is not valid, or not any more; empty while it is.
  std::string certificate_fault;
  // Of TCP and TLS, as address:port.
  std::string address;
};

}  // namespace pto::daemon::rpc

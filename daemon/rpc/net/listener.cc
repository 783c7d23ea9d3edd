#include "daemon/rpc/net/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::rpc {
namespace {

// As long as the kernel allows (net.core.somaxconn).
constexpr int kBacklog = 4096;

// No address begins like this.
constexpr absl::string_view kAdopted = "/fd/";

absl::Status Failed(const std::string& address, absl::string_view why) {
  return Error(reason::kListenFailed, absl::StrCat("cannot listen on ", address, ": ", why))
      .With("address", address);
}

absl::Status FailedCall(const std::string& address, absl::string_view call) {
  return Failed(address, absl::StrCat(call, ": ", std::generic_category().message(errno)));
}

void SetOn(int file, int level, int option) {
  const int on = 1;
  setsockopt(file, level, option, &on, sizeof on);
}

int PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

void SetPort(sockaddr_storage& address, int port) {
  const auto in_order = htons(static_cast<uint16_t>(port));
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = in_order;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = in_order;
  }
}

std::string ToText(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = {};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "";
  }
  return address.ss_family == AF_INET6 ? absl::StrCat("[", host, "]:", PortOf(address))
                                       : absl::StrCat(host, ":", PortOf(address));
}

}  // namespace

absl::StatusOr<Listener> Listener::Bind(const std::string& address) {
  Listener listener;
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, kAdopted)) {
    const size_t slash = path.find('/');
    int file = -1;
    if (!absl::SimpleAtoi(path.substr(0, slash), &file)) return Failed(address, "no descriptor");
    listener.files_.push_back(file);
    listener.address_ = std::string(path.substr(slash + 1));
  } else if (absl::ConsumePrefix(&path, "unix:")) {
    if (absl::StartsWith(path, "///")) path.remove_prefix(2);
    listener.address_ = address;
    PTO_RETURN_IF_ERROR(listener.BindUnix(std::string(path)));
  } else {
    PTO_RETURN_IF_ERROR(listener.BindTcp(address));
  }
  return listener;
}

std::string Listener::Adopted(int file, const std::string& address) {
  return absl::StrCat(kAdopted, file, "/", address);
}

Listener::~Listener() {
  if (!path_.empty()) unlink(path_.c_str());
  for (const int file : files_) close(file);
}

absl::Status Listener::BindUnix(const std::string& path) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) return Failed(address_, "the path is too long");
  path.copy(name.sun_path, path.size());
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (file < 0) return FailedCall(address_, "socket");
  files_.push_back(file);
  if (bind(file, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return FailedCall(address_, "bind");
  }
  path_ = path;
  if (listen(file, kBacklog) != 0) return FailedCall(address_, "listen");
  return absl::OkStatus();
}

absl::Status Listener::BindTcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Failed(address, "there is no port");
  std::string host = address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* first = nullptr;
  const int looked_up = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &first);
  if (looked_up != 0) return Failed(address, gai_strerror(looked_up));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(first, &freeaddrinfo);

  // One of several is enough: a name may stand for an address that this machine does not have.
  absl::Status problem = Failed(address, "the name has no address");
  int port = 0;
  for (const addrinfo* info = first; info != nullptr; info = info->ai_next) {
    sockaddr_storage name = {};
    std::memcpy(&name, info->ai_addr, info->ai_addrlen);
    // All that one name stands for get the same port.
    if (PortOf(name) == 0) SetPort(name, port);
    const int file = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (file < 0) {
      problem = FailedCall(address, "socket");
      continue;
    }
    // No SO_REUSEPORT: a second daemon must not get half of the connections.
    SetOn(file, SOL_SOCKET, SO_REUSEADDR);
    // Accepted sockets inherit it.
    SetOn(file, IPPROTO_TCP, TCP_NODELAY);
    if (bind(file, reinterpret_cast<const sockaddr*>(&name), info->ai_addrlen) != 0 ||
        listen(file, kBacklog) != 0) {
      problem = FailedCall(address, "bind");
      close(file);
      continue;
    }
    files_.push_back(file);
    socklen_t size = sizeof name;
    getsockname(file, reinterpret_cast<sockaddr*>(&name), &size);
    port = PortOf(name);
  }
  if (files_.empty()) return problem;
  address_ = absl::StrCat(address.substr(0, colon), ":", port);
  return absl::OkStatus();
}

Peer PeerOfSocket(int file) {
  Peer peer;
  sockaddr_storage name = {};
  socklen_t size = sizeof name;
  if (getsockname(file, reinterpret_cast<sockaddr*>(&name), &size) != 0) return peer;
  if (name.ss_family == AF_UNIX) {
    ucred credentials = {};
    size = sizeof credentials;
    if (getsockopt(file, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return peer;
    peer.transport = Peer::Transport::kUnix;
    peer.uid = credentials.uid;
    peer.gid = credentials.gid;
    peer.pid = credentials.pid;
    return peer;
  }
  peer.transport = Peer::Transport::kTcp;
  size = sizeof name;
  if (getpeername(file, reinterpret_cast<sockaddr*>(&name), &size) == 0) {
    peer.address = ToText(name, size);
  }
  return peer;
}

}  // namespace pto::daemon::rpc

#include "daemon/shell/inherited_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::daemon {
namespace {

// The first that systemd passes.
constexpr int kFirst = 3;

// As ListenAddress::ToString has it; empty for what the daemon cannot listen on.
std::string AddressOf(int file) {
  sockaddr_storage name = {};
  socklen_t size = sizeof name;
  if (getsockname(file, reinterpret_cast<sockaddr*>(&name), &size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = {};
  switch (name.ss_family) {
    case AF_UNIX: {
      const auto& path = reinterpret_cast<const sockaddr_un&>(name);
      if (size <= offsetof(sockaddr_un, sun_path) || path.sun_path[0] == '\0') return "";
      return absl::StrCat("unix:", path.sun_path);
    }
    case AF_INET: {
      const auto& v4 = reinterpret_cast<const sockaddr_in&>(name);
      inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
      return absl::StrCat(text, ":", ntohs(v4.sin_port));
    }
    case AF_INET6: {
      const auto& v6 = reinterpret_cast<const sockaddr_in6&>(name);
      inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
      return absl::StrCat("[", text, "]:", ntohs(v6.sin6_port));
    }
    default:
      return "";
  }
}

bool ListensForStreams(int file) {
  int type = 0, listens = 0;
  socklen_t size = sizeof type;
  if (getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return false;
  size = sizeof listens;
  return getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && type == SOCK_STREAM &&
         listens != 0;
}

// A variable with a number, which is removed; -1 without one.
int TakeNumber(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT: before there are threads
  int value = -1;
  if (text == nullptr || !absl::SimpleAtoi(text, &value)) value = -1;
  unsetenv(name);  // NOLINT: before there are threads
  return value;
}

}  // namespace

absl::StatusOr<InheritedSockets> InheritedSockets::FromEnvironment() {
  const int process = TakeNumber("LISTEN_PID");
  const int count = TakeNumber("LISTEN_FDS");
  unsetenv("LISTEN_FDNAMES");  // NOLINT: before there are threads
  // Others inherit the variables from a process that has not removed them.
  if (process != getpid() || count <= 0) return InheritedSockets();
  return Take(kFirst, count);
}

absl::StatusOr<InheritedSockets> InheritedSockets::Take(int first, int count) {
  InheritedSockets taken;
  for (int file = first; file < first + count; ++file) {
    const std::string address = ListensForStreams(file) ? AddressOf(file) : "";
    if (address.empty()) {
      return Error(reason::kListenFailed,
                   absl::StrCat("descriptor ", file,
                                ", which this process was started with, is no "
                                "socket that listens for connections"))
          .Hint("check the socket unit: ListenStream= with a path or an IP address, Accept=no");
    }
    fcntl(file, F_SETFD, FD_CLOEXEC);
    fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
    taken.sockets_.push_back({address, file});
  }
  return taken;
}

int InheritedSockets::Claim(absl::string_view address) {
  for (Socket& socket : sockets_) {
    if (socket.address == address) return std::exchange(socket.file, -1);
  }
  return -1;
}

std::vector<std::string> InheritedSockets::unclaimed() const {
  std::vector<std::string> addresses;
  for (const Socket& socket : sockets_) {
    if (socket.file >= 0) addresses.push_back(socket.address);
  }
  return addresses;
}

}  // namespace pto::daemon

#include "daemon/shell/systemd_notifier.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/base/error.h"

namespace pto::daemon {

SystemdNotifier SystemdNotifier::FromEnvironment() {
  const char* const socket = std::getenv("NOTIFY_SOCKET");  // NOLINT: nothing sets variables
  return SystemdNotifier(socket == nullptr ? "" : socket);
}

absl::Status SystemdNotifier::Ready(absl::string_view status) const {
  return SendState("READY=1", status);
}

absl::Status SystemdNotifier::Stopping(absl::string_view status) const {
  return SendState("STOPPING=1", status);
}

absl::Status SystemdNotifier::Alive() const { return Send("WATCHDOG=1\n"); }

absl::Status SystemdNotifier::SendState(absl::string_view state, absl::string_view status) const {
  return Send(absl::StrCat(state, "\nSTATUS=", absl::StrReplaceAll(status, {{"\n", " "}}), "\n"));
}

absl::Status SystemdNotifier::Send(absl::string_view message) const {
  if (socket_.empty()) return absl::OkStatus();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if ((socket_[0] != '/' && socket_[0] != '@') || socket_.size() >= sizeof address.sun_path) {
    return Error(reason::kPathUnusable, absl::StrCat("NOTIFY_SOCKET is no socket: ", socket_));
  }
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  // The kernel marks names that are no files by a zero in front.
  if (socket_[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());

  // A supervisor that does not read must not hold the daemon up for long.
  constexpr timeval kPatience = {1, 0};
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int error = errno;
  bool sent = false;
  if (fd >= 0) {
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
    sent = sendto(fd, message.data(), message.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  size) == static_cast<ssize_t>(message.size());
    error = errno;
    close(fd);
  }
  if (sent) return absl::OkStatus();
  return Error(reason::kPathUnusable, absl::StrCat("cannot notify systemd at ", socket_, ": ",
                                                   std::generic_category().message(error)));
}

}  // namespace pto::daemon

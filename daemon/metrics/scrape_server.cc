#include "daemon/metrics/scrape_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::metrics {
namespace {

constexpr int64_t kSlowestNs = 2'000'000'000;
constexpr int kAcceptPauseMs = 1000;
constexpr size_t kMaxRequestBytes = 8192;
constexpr int kBacklog = 8;

absl::Status Failed(absl::string_view address, absl::string_view what) {
  return Error(reason::kListenFailed,
               absl::StrCat("metrics_listen ", address, ": ", what, ": ", std::strerror(errno)))
      .With("address", address);
}

// Whether a socket file is left over from a daemon that has ended.
bool IsStale(const sockaddr_un& address) {
  struct stat status = {};
  if (lstat(address.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool refused =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED;
  close(probe);
  return refused;
}

bool MayWorkNextTime() { return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK; }

std::string Response(absl::string_view status, absl::string_view type, absl::string_view body) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Type: ", type,
                      "\r\nContent-Length: ", body.size(), "\r\nConnection: close\r\n\r\n", body);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScrapeServer>> ScrapeServer::Start(
    const ListenAddress& address, std::function<std::string()> make_text) {
  std::unique_ptr<ScrapeServer> server(new ScrapeServer(std::move(make_text)));
  PTO_RETURN_IF_ERROR(server->Listen(address));
  server->stop_ = eventfd(0, EFD_CLOEXEC);
  if (server->stop_ < 0) return Failed(address.ToString(), "eventfd");
  server->thread_ = std::thread([self = server.get()] {
    pthread_setname_np(pthread_self(), "metrics");
    self->Serve();
  });
  return server;
}

ScrapeServer::~ScrapeServer() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof one);
    thread_.join();
  }
  if (stop_ >= 0) close(stop_);
  if (listener_ >= 0) close(listener_);
  if (!path_.empty()) unlink(path_.c_str());
}

absl::Status ScrapeServer::Listen(const ListenAddress& address) {
  const std::string name = address.ToString();
  if (address.is_unix()) {
    sockaddr_un place = {};
    place.sun_family = AF_UNIX;
    if (address.path().size() >= sizeof place.sun_path) {
      errno = ENAMETOOLONG;
      return Failed(name, "bind");
    }
    std::memcpy(place.sun_path, address.path().data(), address.path().size());
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener_ < 0) return Failed(name, "socket");
    if (IsStale(place)) unlink(place.sun_path);
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) {
      return Failed(name, "bind");
    }
    path_ = address.path();
    if (listen(listener_, kBacklog) != 0) return Failed(name, "listen");
    address_ = name;
    return absl::OkStatus();
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code =
      getaddrinfo(address.host().c_str(), absl::StrCat(address.port()).c_str(), &hints, &found);
  if (code != 0) {
    return Error(reason::kListenFailed,
                 absl::StrCat("metrics_listen ", name, ": ", gai_strerror(code)))
        .With("address", name);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> free_found(found, &freeaddrinfo);
  listener_ = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ < 0) return Failed(name, "socket");
  const int yes = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener_, found->ai_addr, found->ai_addrlen) != 0) return Failed(name, "bind");
  if (listen(listener_, kBacklog) != 0) return Failed(name, "listen");
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &size);
  const uint16_t port = bound.ss_family == AF_INET6
                            ? ntohs(reinterpret_cast<const sockaddr_in6&>(bound).sin6_port)
                            : ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  address_ = bound.ss_family == AF_INET6 ? absl::StrCat("[", address.host(), "]:", port)
                                         : absl::StrCat(address.host(), ":", port);
  return absl::OkStatus();
}

void ScrapeServer::Serve() {
  while (true) {
    pollfd waiting[] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
    if (poll(waiting, 2, -1) < 0) {
      if (errno == EINTR) continue;
      PTO_LOG(kError, "metrics are no longer served", {{"error", std::strerror(errno)}});
      return;
    }
    if (waiting[1].revents != 0) return;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) {
      // Without descriptors the client stays in the backlog. Retrying at once would only burn CPU
      // time.
      if (!MayWorkNextTime() && errno != ECONNABORTED) poll(&waiting[1], 1, kAcceptPauseMs);
      continue;
    }
    Answer(connection);
    close(connection);
  }
}

bool ScrapeServer::Await(int connection, short events, int64_t deadline_ns) const {
  constexpr int64_t kMillisecond = 1'000'000;
  while (true) {
    const int64_t left = deadline_ns - Clock::Real().NowNanos();
    if (left <= 0) return false;
    pollfd waiting[] = {{connection, events, 0}, {stop_, POLLIN, 0}};
    const int count = poll(waiting, 2, static_cast<int>(left / kMillisecond + 1));
    if (count < 0 && errno != EINTR) return false;
    if (count <= 0) continue;
    return waiting[1].revents == 0;
  }
}

void ScrapeServer::WriteAll(int connection, absl::string_view text, int64_t deadline_ns) const {
  while (!text.empty()) {
    if (!Await(connection, POLLOUT, deadline_ns)) return;
    const ssize_t sent = send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && MayWorkNextTime()) continue;
    if (sent <= 0) return;
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

void ScrapeServer::Answer(int connection) {
  // One deadline for the whole request: a slow client must not delay the others.
  const int64_t deadline_ns = Clock::Real().NowNanos() + kSlowestNs;
  const auto reply = [&](absl::string_view text) { WriteAll(connection, text, deadline_ns); };
  std::string request;
  char bytes[1024];
  while (!absl::StrContains(request, "\r\n\r\n")) {
    if (!Await(connection, POLLIN, deadline_ns)) return;
    const ssize_t got = recv(connection, bytes, sizeof bytes, 0);
    if (got < 0 && MayWorkNextTime()) continue;
    if (got <= 0) return;
    request.append(bytes, static_cast<size_t>(got));
    if (request.size() > kMaxRequestBytes) {
      reply(Response("431 Request Header Fields Too Large", "text/plain", ""));
      return;
    }
  }
  if (!absl::StartsWith(request, "GET ")) {
    reply(Response("405 Method Not Allowed", "text/plain", "GET only\n"));
  } else if (!absl::StartsWith(request, "GET /metrics ") &&
             !absl::StartsWith(request, "GET /metrics?")) {
    reply(Response("404 Not Found", "text/plain", "see /metrics\n"));
  } else {
    reply(Response("200 OK", "text/plain; version=0.0.4; charset=utf-8", make_text_()));
  }
}

}  // namespace pto::daemon::metrics

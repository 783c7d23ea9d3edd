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
#include <iterator>
#include <utility>
#include <vector>

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
// How long a text may be served while others still read it.
constexpr int64_t kSharedNs = 250'000'000;
constexpr int64_t kAcceptPauseNs = 1'000'000'000;
constexpr size_t kMaxRequestBytes = 8192;
constexpr int kBacklog = 64;

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
  for (const Connection& connection : connections_) close(connection.fd);
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
  constexpr int64_t kMillisecond = 1'000'000;
  std::vector<pollfd> waiting;
  // While there are no descriptors, clients stay in the backlog: trying again at once would only
  // burn CPU time.
  int64_t accept_after_ns = 0;
  while (true) {
    const int64_t now = Clock::Real().NowNanos();
    while (!connections_.empty() && connections_.front().deadline_ns <= now) {
      Close(connections_.begin());
    }
    const bool accepts = accept_after_ns <= now;
    waiting.assign({{stop_, POLLIN, 0}, {accepts ? listener_ : -1, POLLIN, 0}});
    for (const Connection& connection : connections_) {
      const short events = connection.page == nullptr ? POLLIN : POLLOUT;
      waiting.push_back({connection.fd, events, 0});
    }
    int64_t wake_ns = connections_.empty() ? 0 : connections_.front().deadline_ns;
    if (!accepts && (wake_ns == 0 || accept_after_ns < wake_ns)) wake_ns = accept_after_ns;
    const int timeout = wake_ns == 0 ? -1 : static_cast<int>((wake_ns - now) / kMillisecond + 1);
    if (poll(waiting.data(), waiting.size(), timeout) < 0) {
      if (errno == EINTR) continue;
      PTO_LOG(kError, "metrics are no longer served", {{"error", std::strerror(errno)}});
      return;
    }
    if (waiting[0].revents != 0) return;
    // In the order of `waiting`; new ones are added only afterwards.
    size_t at = 2;
    for (auto connection = connections_.begin(); connection != connections_.end(); ++at) {
      const bool ready = waiting[at].revents != 0;
      connection = ready && !Advance(*connection) ? Close(connection) : std::next(connection);
    }
    if (waiting[1].revents != 0 && !Accept()) {
      accept_after_ns = Clock::Real().NowNanos() + kAcceptPauseNs;
    }
  }
}

bool ScrapeServer::Accept() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return MayWorkNextTime() || errno == ECONNABORTED;
  if (connections_.size() >= kMaxConnections) Close(connections_.begin());
  Connection connection;
  connection.fd = fd;
  connection.deadline_ns = Clock::Real().NowNanos() + kSlowestNs;
  connections_.push_back(std::move(connection));
  return true;
}

ScrapeServer::Connections::iterator ScrapeServer::Close(Connections::iterator connection) {
  close(connection->fd);
  return connections_.erase(connection);
}

bool ScrapeServer::Advance(Connection& connection) {
  if (connection.page == nullptr && !Read(connection)) return false;
  while (connection.page != nullptr) {
    const std::string& text = connection.page->text;
    if (connection.sent == text.size()) return false;
    const ssize_t sent = send(connection.fd, text.data() + connection.sent,
                              text.size() - connection.sent, MSG_NOSIGNAL);
    if (sent <= 0) return sent < 0 && MayWorkNextTime();
    connection.sent += static_cast<size_t>(sent);
  }
  return true;
}

bool ScrapeServer::Read(Connection& connection) {
  char bytes[1024];
  const ssize_t got = recv(connection.fd, bytes, sizeof bytes, 0);
  if (got <= 0) return got < 0 && MayWorkNextTime();
  connection.request.append(bytes, static_cast<size_t>(got));
  if (absl::StrContains(connection.request, "\r\n\r\n")) {
    connection.page = Answer(connection.request);
  } else if (connection.request.size() > kMaxRequestBytes) {
    connection.page = MakePage("431 Request Header Fields Too Large", "text/plain", "");
  }
  return true;
}

std::shared_ptr<const ScrapeServer::Page> ScrapeServer::Answer(const std::string& request) {
  if (!absl::StartsWith(request, "GET ")) {
    return MakePage("405 Method Not Allowed", "text/plain", "GET only\n");
  }
  if (!absl::StartsWith(request, "GET /metrics ") && !absl::StartsWith(request, "GET /metrics?")) {
    return MakePage("404 Not Found", "text/plain", "see /metrics\n");
  }
  return MetricsPage();
}

std::shared_ptr<const ScrapeServer::Page> ScrapeServer::MetricsPage() {
  // Gone unless somebody is still reading it. So usually everybody gets a new one.
  std::shared_ptr<const Page> page = metrics_.lock();
  if (page == nullptr || Clock::Real().NowNanos() - page->made_ns > kSharedNs) {
    page = MakePage("200 OK", "text/plain; version=0.0.4; charset=utf-8", make_text_());
    metrics_ = page;
  }
  return page;
}

std::shared_ptr<const ScrapeServer::Page> ScrapeServer::MakePage(absl::string_view status,
                                                                 absl::string_view type,
                                                                 absl::string_view body) {
  auto page = std::make_shared<Page>();
  page->text =
      absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Type: ", type,
                   "\r\nContent-Length: ", body.size(), "\r\nConnection: close\r\n\r\n", body);
  page->made_ns = Clock::Real().NowNanos();
  return page;
}

}  // namespace pto::daemon::metrics

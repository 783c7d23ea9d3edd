#include "daemon/rpc/net/acceptor.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto::daemon::rpc {
namespace {

constexpr int kPauseMs = 100;
// Connections that are accepted before other listeners have their turn.
constexpr int kBatch = 64;
constexpr int64_t kNsPerMs = 1'000'000;

bool NoDescriptor(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

std::string Number(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

// What HTTP/2 has to say to a client that cannot connect: SETTINGS, and GOAWAY with the code
// ENHANCE_YOUR_CALM and a text that gRPC's clients show.
std::string Refusal(absl::string_view why) {
  constexpr uint32_t kEnhanceYourCalm = 11;
  std::string bytes(9, '\0');
  bytes[3] = 4;
  std::string goaway = absl::StrCat(Number(0), Number(kEnhanceYourCalm), why);
  absl::StrAppend(&bytes, Number(static_cast<uint32_t>(goaway.size())).substr(1), "\x07",
                  std::string(5, '\0'), goaway);
  return bytes;
}

// Best effort: whoever does not read it is gone anyway.
void RefuseAndClose(int file, absl::string_view why) {
  const std::string bytes = Refusal(why);
  send(file, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  close(file);
}

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

Acceptor::Acceptor(std::vector<Listener> listeners, std::shared_ptr<Connections> connections,
                   Handler handler, const Options& options)
    : listeners_(std::move(listeners)),
      connections_(std::move(connections)),
      handler_(std::move(handler)),
      options_(options) {}

Acceptor::~Acceptor() { Stop(); }

absl::Status Acceptor::Start() {
  poll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  spare_ = OpenSpare();
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = wake_;
  if (poll_ < 0 || wake_ < 0 || spare_ < 0 || epoll_ctl(poll_, EPOLL_CTL_ADD, wake_, &event) != 0) {
    return Error(reason::kListenFailed, absl::StrCat("cannot wait for connections: ",
                                                     std::generic_category().message(errno)));
  }
  Listen(true);
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "accept");
  return absl::OkStatus();
}

void Acceptor::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    PTO_CHECK(write(wake_, &one, sizeof one) == sizeof one, "an eventfd takes a number");
    thread_.join();
  }
  listeners_.clear();
  for (int* const file : {&poll_, &wake_, &spare_}) {
    if (*file >= 0) close(*file);
    *file = -1;
  }
}

void Acceptor::Listen(bool on) {
  for (const Listener& listener : listeners_) {
    for (const int file : listener.files()) {
      epoll_event event = {};
      event.events = EPOLLIN;
      event.data.fd = file;
      epoll_ctl(poll_, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, file, &event);
    }
  }
}

int Acceptor::Timeout(bool paused) {
  const int64_t due = connections_->EndSilent(absl::ToInt64Nanoseconds(options_.handshake_timeout),
                                              Clock::Real().NowNanos());
  if (due < 0) return paused ? kPauseMs : -1;
  // Rounded up, so that it is due then.
  const int64_t wait = std::min<int64_t>(due / kNsPerMs + 1, std::numeric_limits<int>::max());
  return static_cast<int>(paused ? std::min<int64_t>(wait, kPauseMs) : wait);
}

void Acceptor::Run() {
  bool paused = false;
  while (true) {
    epoll_event events[8];
    const int count = epoll_wait(poll_, events, std::size(events), Timeout(paused));
    if (paused) {
      paused = false;
      Listen(true);
    }
    bool pause = false;
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == wake_) return;
      if (!AcceptAll(events[i].data.fd)) pause = true;
    }
    if (pause) {
      paused = true;
      Listen(false);
    }
  }
}

bool Acceptor::AcceptAll(int listener) {
  for (int i = 0; i < kBatch; ++i) {
    const int file = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (file >= 0) {
      Serve(file);
    } else if (NoDescriptor(errno)) {
      if (!RefuseOne(listener)) return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    }
    // Otherwise this connection has failed before it was accepted, and the next one may be there.
  }
  return true;
}

bool Acceptor::RefuseOne(int listener) {
  if (spare_ < 0) spare_ = OpenSpare();
  if (spare_ < 0) return false;
  close(spare_);
  spare_ = -1;
  const int file = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (file >= 0) {
    constexpr absl::string_view kWhy = "the daemon has no free file descriptor";
    connections_->CountRefusal("unknown", kWhy);
    RefuseAndClose(file, kWhy);
  }
  spare_ = OpenSpare();
  return spare_ >= 0;
}

void Acceptor::Serve(int file) {
  const absl::StatusOr<std::shared_ptr<Connection>> connection =
      connections_->Admit(file, PeerOfSocket(file));
  if (!connection.ok()) {
    RefuseAndClose(file, connection.status().message());
    return;
  }
  handler_(file);
}

}  // namespace pto::daemon::rpc

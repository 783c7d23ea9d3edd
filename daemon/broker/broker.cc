#include "daemon/broker/broker.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/log.h"
#include "runtime/chip/allocation.h"

namespace pto::daemon {
namespace {

using broker::Op;
using broker::Outcome;

// The ids of epoll events; connections use the numbers after these.
constexpr uint64_t kListener = 0;
constexpr uint64_t kWake = 1;
constexpr uint64_t kFirstConnection = 2;

constexpr int kBacklog = 64;
// How long to pause accepting when no descriptors are left.
constexpr int64_t kListenPauseNs = 1'000'000'000;

int64_t Now() { return Clock::Real().NowNanos(); }

bool Watch(int poll, int operation, int descriptor, uint64_t id, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(poll, operation, descriptor, &event) == 0;
}

// Sends a reply, with a descriptor unless it is -1. Never blocks.
bool Send(int socket, const broker::Reply& reply, int descriptor) {
  broker::ReplyBytes bytes = broker::Encode(reply);
  iovec part = {bytes.data(), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

// The buffer's file if the buffer has been moved to one; otherwise -1.
int DescriptorOf(const SessionBuffer& buffer) {
  const engine::HostAllocation* const memory = buffer.memory->AsHost();
  return memory == nullptr ? -1 : memory->shared_descriptor();
}

absl::Status CannotListen(const std::string& path, absl::string_view call) {
  const int error = errno;
  return Error(reason::kListenFailed, absl::StrCat("cannot listen on ", path, ": ", call, ": ",
                                                   std::generic_category().message(error)))
      .With("path", path);
}

}  // namespace

struct Broker::Connection {
  Connection(FileDescriptor socket, SessionManager& sessions, const ucred& peer)
      : socket(std::move(socket)), peer(peer), visit(sessions, peer.uid), opened_ns(Now()) {}
  ~Connection() { gone->store(true, std::memory_order_release); }

  const FileDescriptor socket;
  const ucred peer;
  Visit visit;
  const int64_t opened_ns;
  // Tells the mover that nobody waits for the buffer any more.
  const std::shared_ptr<std::atomic<bool>> gone = std::make_shared<std::atomic<bool>>(false);
};

absl::StatusOr<std::unique_ptr<Broker>> Broker::Start(Options options) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (options.path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return CannotListen(options.path, "bind");
  }
  std::memcpy(address.sun_path, options.path.data(), options.path.size());
  FileDescriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return CannotListen(options.path, "socket");
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return CannotListen(options.path, "bind");
  }
  if (listen(listener.get(), kBacklog) != 0) return CannotListen(options.path, "listen");
  FileDescriptor poll(epoll_create1(EPOLL_CLOEXEC));
  FileDescriptor wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!poll.valid() || !wake.valid() ||
      !Watch(poll.get(), EPOLL_CTL_ADD, listener.get(), kListener, EPOLLIN) ||
      !Watch(poll.get(), EPOLL_CTL_ADD, wake.get(), kWake, EPOLLIN)) {
    return CannotListen(options.path, "epoll");
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    options.max_connections = std::min<size_t>(options.max_connections, limit.rlim_cur / 8);
  }
  std::unique_ptr<Broker> broker(
      new Broker(std::move(options), std::move(listener), std::move(poll), std::move(wake)));
  broker->mover_ = std::make_unique<Mover>(broker->options_.budget);
  broker->thread_ = std::thread([raw = broker.get()] { raw->Serve(); });
  pthread_setname_np(broker->thread_.native_handle(), "broker");
  return broker;
}

Broker::Broker(Options options, FileDescriptor listener, FileDescriptor poll, FileDescriptor wake)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      poll_(std::move(poll)),
      wake_(std::move(wake)),
      next_connection_(kFirstConnection) {}

Broker::~Broker() {
  stop_.store(true, std::memory_order_release);
  Wake();
  if (thread_.joinable()) thread_.join();
  // Moves in progress have no receiver any more.
  connections_.clear();
  mover_.reset();
}

void Broker::Wake() {
  const uint64_t one = 1;
  // A full pipe wakes the thread up anyway.
  [[maybe_unused]] const ssize_t ignored = write(wake_.get(), &one, sizeof(one));
}

void Broker::Serve() {
  constexpr int kMaxEvents = 64;
  epoll_event events[kMaxEvents];
  while (!stop_.load(std::memory_order_acquire)) {
    const int count = epoll_wait(poll_.get(), events, kMaxEvents, PollTimeout());
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == kListener) {
        Accept();
      } else if (id == kWake) {
        uint64_t ignored = 0;
        [[maybe_unused]] const ssize_t size = read(wake_.get(), &ignored, sizeof(ignored));
      } else if (const auto it = connections_.find(id); it != connections_.end()) {
        // Messages sent before the client left do not matter.
        const bool left = (events[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0;
        if (left || !Receive(id, *it->second)) Close(id);
      }
    }
    TakeMoved();
    CloseLate();
    if (listen_again_ns_ != 0 && Now() >= listen_again_ns_) ResumeListening();
  }
}

int Broker::PollTimeout() const {
  if (connections_.empty() && listen_again_ns_ == 0) return -1;
  // Without connections there is nothing to sweep.
  int64_t next = connections_.empty() ? listen_again_ns_ : next_sweep_ns_;
  if (listen_again_ns_ != 0) next = std::min(next, listen_again_ns_);
  constexpr int64_t kMillisecond = 1'000'000;
  return static_cast<int>(std::clamp<int64_t>((next - Now()) / kMillisecond + 1, 0, 60'000));
}

void Broker::Accept() {
  FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.valid()) {
    // The client waits in the backlog; retrying immediately would only burn CPU time.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      PTO_LOG(kWarning, "the broker has no descriptors for another client");
      PauseListening();
    }
    return;
  }
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  if (connections_.size() >= options_.max_connections || strangers_ >= options_.max_strangers) {
    return;
  }
  const uint64_t id = next_connection_++;
  if (!Watch(poll_.get(), EPOLL_CTL_ADD, socket.get(), id, EPOLLIN | EPOLLRDHUP)) return;
  connections_.emplace(id,
                       std::make_unique<Connection>(std::move(socket), *options_.sessions, peer));
  ++strangers_;
  connection_count_.store(connections_.size(), std::memory_order_relaxed);
  const int64_t late = Now() + absl::ToInt64Nanoseconds(options_.attach_timeout);
  next_sweep_ns_ = connections_.size() == 1 ? late : std::min(next_sweep_ns_, late);
}

void Broker::PauseListening() {
  Watch(poll_.get(), EPOLL_CTL_MOD, listener_.get(), kListener, 0);
  listen_again_ns_ = Now() + kListenPauseNs;
}

void Broker::ResumeListening() {
  listen_again_ns_ = 0;
  Watch(poll_.get(), EPOLL_CTL_MOD, listener_.get(), kListener, EPOLLIN);
}

bool Broker::Receive(uint64_t id, Connection& connection) {
  // One byte more than a message, to detect messages that are too long. There is no room for
  // descriptors: the kernel closes them and sets a flag.
  char bytes[broker::kRequestBytes + 1];
  iovec part = {bytes, sizeof(bytes)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t size = recvmsg(connection.socket.get(), &message, MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return false;
  const absl::StatusOr<broker::Request> request =
      broker::ParseRequest(absl::MakeSpan(bytes, static_cast<size_t>(size)));
  return request.ok() && Answer(id, connection, *request);
}

bool Broker::Answer(uint64_t id, Connection& connection, const broker::Request& request) {
  broker::Reply reply;
  reply.op = request.op;
  reply.number = request.number;
  switch (request.op) {
    case Op::kAttach:
      reply.outcome = Attach(connection, request);
      if (reply.outcome == Outcome::kOk) break;
      if (Now() >= next_denial_log_ns_) {
        next_denial_log_ns_ = Now() + 1'000'000'000;
        PTO_LOG(kWarning,
                reply.outcome == Outcome::kLimit
                    ? "a session has too many connections to the broker"
                    : "a client may not map the buffers of a session",
                {{"session", request.name},
                 {"uid", connection.peer.uid},
                 {"pid", connection.peer.pid}});
      }
      // The client gets the answer, and no second try.
      Send(connection.socket.get(), reply, -1);
      return false;
    case Op::kMap: {
      switch (PTO_FAILPOINT("broker.map")) {
        case FailAction::kNone:
          break;
        case FailAction::kDrop:
          return false;
        case FailAction::kError:
          return AnswerMap(connection, request.number, {}, Outcome::kLimit);
      }
      MappedBuffer wanted;
      const Outcome found = connection.visit.Find(request, &wanted);
      const std::shared_ptr<SessionBuffer> buffer = wanted.buffer.lock();
      if (found != Outcome::kOk || buffer == nullptr || DescriptorOf(*buffer) >= 0) {
        return AnswerMap(connection, request.number, wanted, found);
      }
      // Not read until the buffer is moved, so that a client has one move at a time.
      Watch(poll_.get(), EPOLL_CTL_MOD, connection.socket.get(), id, EPOLLRDHUP);
      mover_->Move(
          wanted, [gone = connection.gone] { return !gone->load(std::memory_order_acquire); },
          [this, id, number = request.number, wanted](Outcome outcome) {
            {
              MutexLock lock(mutex_);
              moved_.push_back({id, number, wanted, outcome});
            }
            Wake();
          });
      return true;
    }
    case Op::kCheck:
      reply.outcome = connection.visit.Check(request.region);
      break;
    case Op::kRelease:
      reply.outcome = connection.visit.Release(request.region);
      break;
  }
  return Send(connection.socket.get(), reply, -1);
}

Outcome Broker::Attach(Connection& connection, const broker::Request& request) {
  const Outcome outcome = connection.visit.Attach(request);
  if (outcome != Outcome::kOk) return outcome;
  --strangers_;
  // Counted on demand: attaching is rare, and connections end in many ways. Only after the client
  // has proved whose session it is.
  size_t of_session = 0;
  for (const auto& [id, other] : connections_) {
    if (other->visit.IsOfSameSession(connection.visit)) ++of_session;
  }
  return of_session <= options_.max_session_connections ? Outcome::kOk : Outcome::kLimit;
}

bool Broker::AnswerMap(Connection& connection, uint64_t number, const MappedBuffer& wanted,
                       Outcome outcome) {
  broker::Reply reply;
  reply.op = Op::kMap;
  reply.number = number;
  reply.outcome = outcome;
  if (outcome != Outcome::kOk) return Send(connection.socket.get(), reply, -1);
  // Held until the reply is sent: the descriptor belongs to the buffer.
  const std::shared_ptr<SessionBuffer> buffer = wanted.buffer.lock();
  if (buffer == nullptr || DescriptorOf(*buffer) < 0) {
    reply.outcome = Outcome::kBufferGone;
    return Send(connection.socket.get(), reply, -1);
  }
  reply.region = next_region_++;
  reply.bytes = buffer->memory->bytes();
  connection.visit.Add(reply.region, wanted);
  return Send(connection.socket.get(), reply, DescriptorOf(*buffer));
}

void Broker::TakeMoved() {
  std::vector<Moved> moved;
  {
    MutexLock lock(mutex_);
    moved.swap(moved_);
  }
  for (const Moved& one : moved) {
    const auto it = connections_.find(one.connection);
    if (it == connections_.end()) continue;
    Connection& connection = *it->second;
    Watch(poll_.get(), EPOLL_CTL_MOD, connection.socket.get(), one.connection,
          EPOLLIN | EPOLLRDHUP);
    if (!AnswerMap(connection, one.number, one.buffer, one.outcome)) Close(one.connection);
  }
}

void Broker::CloseLate() {
  const int64_t now = Now();
  if (connections_.empty() || now < next_sweep_ns_) return;
  const int64_t attach_ns = absl::ToInt64Nanoseconds(options_.attach_timeout);
  next_sweep_ns_ = now + absl::ToInt64Nanoseconds(options_.sweep_interval);
  std::vector<uint64_t> late;
  for (const auto& [id, connection] : connections_) {
    if (connection->visit.attached()) {
      if (connection->visit.over()) late.push_back(id);
      continue;
    }
    const int64_t until = connection->opened_ns + attach_ns;
    if (now >= until) {
      late.push_back(id);
    } else {
      next_sweep_ns_ = std::min(next_sweep_ns_, until);
    }
  }
  for (const uint64_t id : late) Close(id);
}

void Broker::Close(uint64_t id) {
  const auto it = connections_.find(id);
  if (!it->second->visit.attached()) --strangers_;
  connections_.erase(it);
  connection_count_.store(connections_.size(), std::memory_order_relaxed);
}

}  // namespace pto::daemon

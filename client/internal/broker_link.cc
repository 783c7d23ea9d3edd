#include "client/internal/broker_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"

namespace pto::internal {
namespace {

using broker::Op;
using broker::Outcome;

// The broker answers immediately, unless it has to move a buffer first.
constexpr absl::Duration kAnswerTime = absl::Seconds(2);
constexpr absl::Duration kReleaseTime = absl::Milliseconds(200);
constexpr absl::Duration kLeastTime = absl::Milliseconds(50);
constexpr int kRetryMs = 5;
constexpr int64_t kFirstPauseNs = 1'000'000'000;
constexpr int64_t kLastPauseNs = 60'000'000'000;
constexpr uint64_t kMovedPerSecond = uint64_t{256} << 20;

// Waits until the socket is readable or writable. False on timeout.
bool Await(int socket, short events, const Deadline& deadline) {
  while (true) {
    const int64_t left = absl::ToInt64Milliseconds(deadline.Remaining() + absl::Milliseconds(1));
    pollfd ready = {socket, events, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
    if (deadline.Passed()) return false;
  }
}

MapRefusal RefusalOf(Outcome outcome) {
  if (outcome == Outcome::kBufferInUse) return MapRefusal::kLater;
  return outcome == Outcome::kLimit ? MapRefusal::kLimit : MapRefusal::kNever;
}

// Whether this memory is as promised by the daemon: of the right size, and sealed against
// shrinking.
bool IsSound(int descriptor, uint64_t bytes) {
  struct stat found = {};
  if (fstat(descriptor, &found) != 0) return false;
  const int seals = fcntl(descriptor, F_GET_SEALS);
  return static_cast<uint64_t>(found.st_size) >= bytes && seals >= 0 &&
         (seals & F_SEAL_SHRINK) != 0;
}

}  // namespace

Mapping::~Mapping() {
  munmap(bytes_.data(), bytes_.size());
  link_->Release(region_);
}

class BrokerLink::Turn {
 public:
  Turn(BrokerLink& link, const Deadline& deadline) : link_(link) {
    MutexLock lock(link_.mutex_);
    while (link_.busy_ && !link_.closed_) {
      if (deadline.Passed()) return;
      const absl::Duration left = std::min(deadline.Remaining(), absl::Minutes(1));
      link_.free_.WaitFor(link_.mutex_, absl::ToChronoNanoseconds(left));
    }
    if (link_.closed_ || Clock::Real().NowNanos() < link_.retry_ns_) return;
    link_.busy_ = true;
    has_ = true;
  }
  ~Turn() {
    if (!has_) return;
    MutexLock lock(link_.mutex_);
    link_.busy_ = false;
    if (link_.closed_) link_.socket_ = FileDescriptor();
    // The woken thread may leave without taking its turn, and would then wake nobody.
    link_.free_.NotifyAll();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool has() const { return has_; }

 private:
  BrokerLink& link_;
  bool has_ = false;
};

BrokerLink::BrokerLink(std::string socket, std::string session_id, const broker::Key& key)
    : path_(std::move(socket)), session_id_(std::move(session_id)), key_(key) {}

broker::Key BrokerLink::RandomKey() {
  broker::Key key = {};
  if (getrandom(key.data(), key.size(), 0) == static_cast<ssize_t>(key.size())) return key;
  std::random_device random;
  for (char& byte : key) byte = static_cast<char>(random());
  return key;
}

std::shared_ptr<Mapping> BrokerLink::Map(const std::string& buffer_id, uint64_t bytes,
                                         const Deadline& deadline, MapRefusal* why) {
  *why = MapRefusal::kLater;
  broker::Request request;
  request.op = Op::kMap;
  request.name = buffer_id;
  const absl::Duration moving = absl::Seconds(bytes / kMovedPerSecond);
  const absl::optional<Answer> answer =
      Ask(std::move(request), deadline.AtMost(kAnswerTime + moving));
  if (!answer.has_value()) return nullptr;
  if (answer->reply.outcome != Outcome::kOk) {
    *why = RefusalOf(answer->reply.outcome);
    return nullptr;
  }
  const Region region = {answer->reply.region, answer->connection};
  void* data = MAP_FAILED;
  if (answer->reply.bytes == bytes && IsSound(answer->descriptor.get(), bytes)) {
    // Fills the page tables, so that the first copy costs no more than the others.
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                answer->descriptor.get(), 0);
  }
  if (data == MAP_FAILED) {
    *why = MapRefusal::kNever;
    Release(region);
    return nullptr;
  }
  return std::make_shared<Mapping>(shared_from_this(), region,
                                   std::span(static_cast<std::byte*>(data), bytes));
}

bool BrokerLink::Check(Region region, const Deadline& deadline) {
  broker::Request request;
  request.op = Op::kCheck;
  request.region = region.number;
  const absl::optional<Answer> answer =
      Ask(std::move(request), deadline.AtMost(kAnswerTime), &region);
  return answer.has_value() && answer->reply.outcome == Outcome::kOk;
}

void BrokerLink::Release(Region region) {
  broker::Request request;
  request.op = Op::kRelease;
  request.region = region.number;
  Ask(std::move(request), Deadline::After(kReleaseTime), &region);
}

void BrokerLink::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  free_.NotifyAll();
  // Otherwise the thread that has the turn closes it.
  if (!busy_) socket_ = FileDescriptor();
}

void BrokerLink::Fail() {
  MutexLock lock(mutex_);
  pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLastPauseNs);
  retry_ns_ = Clock::Real().NowNanos() + pause_ns_;
  connection_.fetch_add(1, std::memory_order_acq_rel);
  socket_ = FileDescriptor();
}

absl::optional<BrokerLink::Answer> BrokerLink::Ask(broker::Request request,
                                                   const Deadline& deadline, const Region* region) {
  // A call with such a short deadline would only break the connection for the others.
  if (deadline.Remaining() < kLeastTime) return absl::nullopt;
  // If the connection is gone there is nothing to ask, so do not wait for a turn.
  if (region != nullptr && IsStale(*region)) return absl::nullopt;
  const Turn turn(*this, deadline);
  if (!turn.has() || (region != nullptr && IsStale(*region))) return absl::nullopt;
  absl::optional<Answer> answer;
  if (socket_.valid() || Connect(deadline)) answer = Exchange(request, deadline);
  // Without the matching reply, the next one would be taken for the answer to another request.
  if (!answer.has_value()) {
    Fail();
    return absl::nullopt;
  }
  answer->connection = connection_.load(std::memory_order_acquire);
  return answer;
}

bool BrokerLink::Connect(const Deadline& deadline) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  socket_ = FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.valid()) return false;
  // A unix socket connects immediately or, if the backlog is full, not at all.
  while (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
         0) {
    if ((errno != EAGAIN && errno != EINTR) || deadline.Passed()) return false;
    poll(nullptr, 0, kRetryMs);
  }
  broker::Request attach;
  attach.op = Op::kAttach;
  attach.name = session_id_;
  attach.key = key_;
  const absl::optional<Answer> answer = Exchange(attach, deadline);
  if (!answer.has_value()) return false;
  // Too many connections. That may change, so it is not reported as an error.
  if (answer->reply.outcome == Outcome::kLimit) return false;
  MutexLock lock(mutex_);
  pause_ns_ = 0;
  // A wrong key or user stays wrong.
  if (answer->reply.outcome != Outcome::kOk) closed_ = true;
  return !closed_;
}

absl::optional<BrokerLink::Answer> BrokerLink::Exchange(const broker::Request& given,
                                                        const Deadline& deadline) {
  broker::Request request = given;
  request.number = next_number_++;
  const broker::RequestBytes bytes = broker::Encode(request);
  if (!Await(socket_.get(), POLLOUT, deadline)) return absl::nullopt;
  if (send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size())) {
    return absl::nullopt;
  }
  absl::optional<Answer> answer = Receive(deadline);
  if (!answer.has_value()) return absl::nullopt;
  const bool mapped = request.op == Op::kMap && answer->reply.outcome == Outcome::kOk;
  if (answer->reply.op != request.op || answer->reply.number != request.number ||
      mapped != answer->descriptor.valid()) {
    return absl::nullopt;
  }
  return answer;
}

absl::optional<BrokerLink::Answer> BrokerLink::Receive(const Deadline& deadline) const {
  char bytes[broker::kReplyBytes + 1];
  iovec part = {bytes, sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (!Await(socket_.get(), POLLIN, deadline)) return absl::nullopt;
  const ssize_t size = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return absl::nullopt;
  Answer answer;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int))) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header), sizeof(number));
      answer.descriptor = FileDescriptor(number);
    }
  }
  const absl::StatusOr<broker::Reply> reply =
      broker::ParseReply(absl::MakeSpan(bytes, static_cast<size_t>(size)));
  if (!reply.ok() || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::nullopt;
  }
  answer.reply = *reply;
  return answer;
}

}  // namespace pto::internal

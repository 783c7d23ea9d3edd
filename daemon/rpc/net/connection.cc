#include "daemon/rpc/net/connection.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "daemon/rpc/net/connections.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

namespace pto::daemon::rpc {
namespace {

// More than Linux allows by default (fs.nr_open).
constexpr rlim_t kMostFiles = 1 << 20;

std::atomic<ConnectionTable*> table{nullptr};

// Calls `take` with the first `size` bytes of the message, piece by piece, as long as it returns
// kNone.
template <typename Take>
Violation ForEachPiece(const msghdr& message, size_t size, const Take& take) {
  Violation violation = Violation::kNone;
  for (size_t i = 0; i < message.msg_iovlen && size > 0 && violation == Violation::kNone; ++i) {
    const size_t piece = std::min(size, message.msg_iov[i].iov_len);
    violation =
        take(absl::string_view(static_cast<const char*>(message.msg_iov[i].iov_base), piece));
    size -= piece;
  }
  return violation;
}

}  // namespace

Connection::Connection(std::shared_ptr<Connections> owner, int file, Peer peer, std::string key)
    : owner_(std::move(owner)),
      file_(file),
      peer_(std::move(peer)),
      key_(std::move(key)),
      since_ns_(Clock::Real().NowNanos()),
      traffic_(owner_->limits().traffic, owner_->total_unfinished()) {}

bool Connection::Received(const msghdr& message, size_t size) {
  reads_.fetch_add(1, std::memory_order_relaxed);
  owner_->Reading(*this);
  if (ended_.load(std::memory_order_acquire)) return false;
  const Violation violation = ForEachPiece(
      message, size, [this](absl::string_view piece) { return traffic_.Received(piece); });
  if (violation != Violation::kNone) return Violated(violation);
  owner_->CheckUnfinished();
  return true;
}

bool Connection::Sent(const msghdr& message, size_t size) {
  if (ended_.load(std::memory_order_acquire)) return false;
  const Violation violation =
      ForEachPiece(message, size, [this](absl::string_view piece) { return traffic_.Sent(piece); });
  return violation == Violation::kNone || Violated(violation);
}

bool Connection::Violated(Violation violation) {
  ShutDown(violation);
  return false;
}

bool Connection::ShutDown(Violation why) {
  if (ended_.exchange(true, std::memory_order_acq_rel)) return false;
  Life open = kOpen;
  // Closing() waits while the number is in use here.
  if (!life_.compare_exchange_strong(open, kBeingShutDown, std::memory_order_acq_rel)) return false;
  owner_->CountEnd();  // before the client can know
  shutdown(file_, SHUT_RDWR);
  life_.store(kOpen, std::memory_order_release);
  owner_->LogEnd(*this, why);
  return true;
}

void Connection::Closing() {
  Life open = kOpen;
  while (!life_.compare_exchange_weak(open, kClosed, std::memory_order_acq_rel)) {
    open = kOpen;
    std::this_thread::yield();
  }
  owner_->Closed(*this);
}

ConnectionTable::ConnectionTable(size_t size)
    : size_(size), slots_(static_cast<Slot*>(std::calloc(size, sizeof(Slot)))) {
  static_assert(sizeof(Slot) == sizeof(void*), "zero bytes are a null pointer");
  PTO_CHECK(slots_ != nullptr, "no address space for the table of connections");
}

ConnectionTable& ConnectionTable::Process() {
  // Never destroyed: the hooks use it until the process ends.
  static ConnectionTable* const made = [] {
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    auto* const process = new ConnectionTable(std::min(limit.rlim_max, kMostFiles));
    table.store(process, std::memory_order_release);
    return process;
  }();
  return *made;
}

bool ConnectionTable::Add(int file, const std::shared_ptr<Connection>& connection) {
  const auto index = static_cast<size_t>(file);
  if (index >= size_) return false;
  connection->in_table_ = connection;
  slots_[index].store(connection.get(), std::memory_order_release);
  return true;
}

Connection* ConnectionTable::Find(int file) {
  const ConnectionTable* const process = table.load(std::memory_order_acquire);
  const auto index = static_cast<size_t>(file);
  if (process == nullptr || index >= process->size_) return nullptr;
  return process->slots_[index].load(std::memory_order_acquire);
}

std::shared_ptr<Connection> ConnectionTable::Take(int file) {
  if (Find(file) == nullptr) return nullptr;
  Connection* const taken = table.load(std::memory_order_acquire)
                                ->slots_[file]
                                .exchange(nullptr, std::memory_order_acq_rel);
  return taken == nullptr ? nullptr : std::move(taken->in_table_);
}

}  // namespace pto::daemon::rpc

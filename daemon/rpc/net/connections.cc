#include "daemon/rpc/net/connections.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

namespace pto::daemon::rpc {
namespace {

constexpr rlim_t kUsefulFiles = 1 << 16;
constexpr rlim_t kMostConnections = 1 << 14;
// If not even this many descriptors can be counted on, the daemon does its best.
constexpr int kLeastConnections = 8;
// Lines in the log about connections, in a row and per second: a client must not fill the disk.
constexpr int64_t kLogBurst = 20;
constexpr int64_t kLogsPerSecond = 2;

// Of all servers.
struct Totals {
  std::atomic<uint64_t> open{0};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> ended{0};
};
Totals totals;

bool IsOperator(const Peer& peer) {
  return peer.transport == Peer::Transport::kUnix && (peer.uid == 0 || peer.uid == geteuid());
}

// Whose connections are counted together.
std::string KeyOf(const Peer& peer) {
  if (peer.transport == Peer::Transport::kUnix) return absl::StrCat("uid ", peer.uid);
  return absl::StrCat("address ", peer.address.substr(0, peer.address.rfind(':')));
}

ConnectionLimits Complete(ConnectionLimits limits) {
  if (limits.max_connections == 0) limits.max_connections = MostConnections();
  if (limits.max_user_connections == 0) {
    limits.max_user_connections = std::max(kLeastConnections, limits.max_connections / 4);
  }
  if (limits.operator_connections == 0) {
    limits.operator_connections = std::max(2, limits.max_connections / 16);
  }
  if (!limits.is_operator) limits.is_operator = IsOperator;
  return limits;
}

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kUsefulFiles) return;
  limit.rlim_cur = std::min(limit.rlim_max, kUsefulFiles);
  setrlimit(RLIMIT_NOFILE, &limit);
}

int MostConnections() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeastConnections;
  const rlim_t files = std::min(limit.rlim_cur, 4 * kMostConnections);
  const rlim_t reserve = std::min<rlim_t>(files / 8, 64);
  return std::max(kLeastConnections,
                  static_cast<int>(std::min(kMostConnections, files / 2 - reserve)));
}

Connections::Connections(ConnectionLimits limits)
    : limits_(Complete(std::move(limits))),
      log_lines_(kLogBurst, kLogsPerSecond, Clock::Real().NowNanos()) {}

absl::Status Connections::CheckRoom(const std::string& key, bool is_operator) const {
  const auto open = static_cast<int>(open_.size());
  const int most = limits_.max_connections - (is_operator ? 0 : limits_.operator_connections);
  if (open >= most) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the daemon has ", open, " connections, and ", most, " are allowed"));
  }
  const auto same = by_key_.find(key);
  if (!is_operator && same != by_key_.end() && same->second >= limits_.max_user_connections) {
    return absl::ResourceExhaustedError(absl::StrCat(key, " has ", same->second,
                                                     " connections, and ",
                                                     limits_.max_user_connections, " are allowed"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Connection>> Connections::Admit(int file, Peer peer) {
  const std::string key = KeyOf(peer);
  // Looked up only if the limits of users are reached: it may take a while.
  bool is_operator = false;
  {
    MutexLock lock(mutex_);
    is_operator = !CheckRoom(key, false).ok();
  }
  is_operator = is_operator && limits_.is_operator(peer);
  // Only if somebody has closed the descriptor without the C library.
  if (const std::shared_ptr<Connection> stale = ConnectionTable::Take(file)) stale->Closing();
  absl::Status room;
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mutex_);
    room = CheckRoom(key, is_operator);
    if (room.ok()) {
      peer.connection = ++last_;
      connection = std::make_shared<Connection>(shared_from_this(), file, std::move(peer), key);
      if (ConnectionTable::Process().Add(file, connection)) {
        open_[connection->peer().connection] = connection;
        ++by_key_[key];
        new_.push_back(connection);
        totals.open.fetch_add(1, std::memory_order_relaxed);
        totals.accepted.fetch_add(1, std::memory_order_relaxed);
        return connection;
      }
      room = absl::ResourceExhaustedError("the number of the descriptor is too large");
    }
  }
  CountRefusal(key, room.message());
  return room;
}

void Connections::CountRefusal(absl::string_view peer, absl::string_view why) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  totals.refused.fetch_add(1, std::memory_order_relaxed);
  {
    MutexLock lock(mutex_);
    if (!log_lines_.Take([] { return Clock::Real().NowNanos(); })) return;
  }
  PTO_LOG(kWarning, "a connection was refused", {{"peer", peer}, {"why", why}});
}

int64_t Connections::EndSilent(int64_t timeout_ns, int64_t now_ns) {
  std::vector<std::shared_ptr<Connection>> silent;
  int64_t next = -1;
  {
    MutexLock lock(mutex_);
    while (!new_.empty()) {
      const std::shared_ptr<Connection> first = new_.front().lock();
      if (first != nullptr && !first->traffic().begun()) {
        const int64_t due = first->since_ns() + timeout_ns;
        if (due > now_ns) {
          next = due - now_ns;
          break;
        }
        silent.push_back(first);
      }
      new_.pop_front();
    }
  }
  for (const std::shared_ptr<Connection>& connection : silent) {
    connection->ShutDown(Violation::kSilent);
  }
  return next;
}

void Connections::EndStalling() {
  std::shared_ptr<Connection> stalling;
  {
    MutexLock lock(mutex_);
    const uint64_t reader = reader_.load(std::memory_order_relaxed);
    const auto found = open_.find(reader);
    if (found == open_.end()) return;
    const uint64_t reads = found->second->reads();
    if (suspect_ == reader && reads != suspect_reads_) stalling = found->second;
    suspect_ = reader;
    suspect_reads_ = reads;
  }
  if (stalling != nullptr) stalling->ShutDown(Violation::kStall);
}

void Connections::StallIsOver() {
  MutexLock lock(mutex_);
  suspect_ = 0;
}

void Connections::OnRead(std::function<void()> callback) {
  MutexLock lock(on_read_mutex_);
  on_read_ = std::move(callback);
}

void Connections::CallOnRead() {
  MutexLock lock(on_read_mutex_);
  if (on_read_) on_read_();
}

void Connections::EndLargest() {
  std::shared_ptr<Connection> largest;
  {
    MutexLock lock(mutex_);
    absl::flat_hash_map<absl::string_view, int64_t> by_key;
    for (const auto& [id, connection] : open_) {
      by_key[connection->key()] += connection->traffic().unfinished_bytes();
    }
    absl::string_view key;
    int64_t most = -1;
    for (const auto& [name, bytes] : by_key) {
      if (bytes > most) {
        key = name;
        most = bytes;
      }
    }
    int64_t bytes = 0;
    for (const auto& [id, connection] : open_) {
      if (connection->key() != key || connection->traffic().unfinished_bytes() <= bytes) continue;
      bytes = connection->traffic().unfinished_bytes();
      largest = connection;
    }
  }
  if (largest != nullptr) largest->ShutDown(Violation::kUnfinished);
}

Connections::Stats Connections::stats() const {
  MutexLock lock(mutex_);
  return {open_.size(), last_, refused_.load(std::memory_order_relaxed),
          ended_.load(std::memory_order_relaxed)};
}

Connections::Stats Connections::OfProcess() {
  return {
      totals.open.load(std::memory_order_relaxed), totals.accepted.load(std::memory_order_relaxed),
      totals.refused.load(std::memory_order_relaxed), totals.ended.load(std::memory_order_relaxed)};
}

void Connections::CountEnd() {
  ended_.fetch_add(1, std::memory_order_relaxed);
  totals.ended.fetch_add(1, std::memory_order_relaxed);
}

void Connections::LogEnd(const Connection& connection, Violation why) {
  {
    MutexLock lock(mutex_);
    if (!log_lines_.Take([] { return Clock::Real().NowNanos(); })) return;
  }
  PTO_LOG(kWarning, "a connection was closed because of what it sent",
          {{"why", NameOf(why)},
           {"peer", connection.key()},
           {"pid", connection.peer().pid},
           {"connection", connection.peer().connection}});
}

void Connections::Closed(const Connection& connection) {
  // Goes after the lock.
  std::shared_ptr<Connection> last_reference;
  MutexLock lock(mutex_);
  const auto found = open_.find(connection.peer().connection);
  if (found == open_.end()) return;
  last_reference = std::move(found->second);
  open_.erase(found);
  totals.open.fetch_sub(1, std::memory_order_relaxed);
  const auto same = by_key_.find(connection.key());
  if (--same->second == 0) by_key_.erase(same);
}

}  // namespace pto::daemon::rpc

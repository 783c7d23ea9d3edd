#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/rpc/net/connection.h"
#include "daemon/rpc/net/peer.h"
#include "daemon/rpc/net/token_bucket.h"
#include "daemon/rpc/net/traffic_guard.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::rpc {

struct ConnectionLimits {
  // Connections in total. Zero means what the limit of descriptors allows: see MostConnections.
  int max_connections = 0;
  // Connections of one unix user, or of one address. Zero means a quarter of max_connections.
  // Operators may have more.
  int max_user_connections = 0;
  // Connections that only operators can have. Zero means a sixteenth of max_connections, at
  // least 2.
  int operator_connections = 0;
  // Bytes of messages that have not come completely, of all connections. Zero means no limit.
  int64_t unfinished_bytes = 0;
  TrafficLimits traffic;
  // Whether a peer is an operator. Asked by the thread that accepts, if there is no room for a
  // user. By default root and the user of this process.
  std::function<bool(const Peer&)> is_operator;
};

// Raises the limit of open descriptors as far as the process may, but not beyond what a daemon can
// use. Call before anything that divides the descriptors.
void RaiseDescriptorLimit();
// How many connections the limit of descriptors allows: half of them less a reserve. The rest is
// for the broker, the journal, the metrics and the process itself.
int MostConnections();

// The connections of a server: who may connect, and who must go. Thread-safe.
class Connections : public std::enable_shared_from_this<Connections> {
 public:
  struct Stats {
    uint64_t open = 0;
    uint64_t accepted = 0;
    uint64_t refused = 0;
    uint64_t ended = 0;  // because of what they did
  };

  explicit Connections(ConnectionLimits limits);

  // Takes a connected socket into the table, from which its descriptor's close() removes it. The
  // caller keeps the descriptor and must close it on an error. Error: RESOURCE_EXHAUSTED, with the
  // limit that was reached.
  absl::StatusOr<std::shared_ptr<Connection>> Admit(int file, Peer peer);

  // A connection was refused before it got here.
  void CountRefusal(absl::string_view peer, absl::string_view why);

  // Ends connections that have not begun to speak HTTP/2 within `timeout`. Returns the time in ns
  // until the next one is due; negative if there is none.
  int64_t EndSilent(int64_t timeout_ns, int64_t now_ns);

  // The polling thread reads and does not return. Ends the connection that it reads from if it was
  // the same at the call before.
  void EndStalling();
  void StallIsOver();

  // Told when gRPC reads although `watched` is false, so that somebody watches whether it returns.
  void OnRead(std::function<void()> callback);
  void SetWatched(bool watched) { watched_.store(watched, std::memory_order_seq_cst); }

  Stats stats() const;
  // Of all servers of the process together.
  static Stats OfProcess();
  const ConnectionLimits& limits() const { return limits_; }

  // For Connection.
  std::atomic<int64_t>& total_unfinished() { return total_unfinished_; }
  void Reading(Connection& connection) {
    reader_.store(connection.peer().connection, std::memory_order_relaxed);
    if (!watched_.load(std::memory_order_relaxed)) CallOnRead();
  }
  // Frees memory if unfinished messages take too much.
  void CheckUnfinished() {
    if (limits_.unfinished_bytes > 0 &&
        total_unfinished_.load(std::memory_order_relaxed) > limits_.unfinished_bytes) {
      EndLargest();
    }
  }
  void CountEnd();
  void LogEnd(const Connection& connection, Violation why);
  void Closed(const Connection& connection);

 private:
  absl::Status CheckRoom(const std::string& key, bool is_operator) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CallOnRead();
  // Ends the connection with most unfinished bytes, of the user with most.
  void EndLargest();

  const ConnectionLimits limits_;
  std::atomic<int64_t> total_unfinished_{0};
  std::atomic<uint64_t> reader_{0};
  std::atomic<bool> watched_{true};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> ended_{0};

  Mutex on_read_mutex_;
  std::function<void()> on_read_ ABSL_GUARDED_BY(on_read_mutex_);

  mutable Mutex mutex_;
  TokenBucket log_lines_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Connection>> open_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, int> by_key_ ABSL_GUARDED_BY(mutex_);
  // The connection that was read from at the last EndStalling, and how often it had been.
  uint64_t suspect_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t suspect_reads_ ABSL_GUARDED_BY(mutex_) = 0;
  // Connections that may not have begun yet, in the order of their acceptance.
  std::deque<std::weak_ptr<Connection>> new_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon::rpc

#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "daemon/rpc/net/peer.h"
#include "daemon/rpc/net/traffic_guard.h"

namespace pto::daemon::rpc {

class Connections;

// A connection that gRPC has taken over from the accept loop. Thread-safe, except that Received
// runs on one thread at a time, and so does Sent.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `owner` counts it under this key.
  Connection(std::shared_ptr<Connections> owner, int file, Peer peer, std::string key);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const Peer& peer() const { return peer_; }
  const std::string& key() const { return key_; }
  const TrafficGuard& traffic() const { return traffic_; }
  int64_t since_ns() const { return since_ns_; }
  // How many times gRPC has read from it.
  uint64_t reads() const { return reads_.load(std::memory_order_relaxed); }

  // Ends the connection: gRPC finds the socket shut down and closes it. Does nothing once gRPC has
  // closed it. Returns whether this call did it.
  bool ShutDown(Violation why);

  // For the hooks of socket_hooks.cc. gRPC has read or written the first `size` bytes of `message`.
  // Return false if the connection must end.
  bool Received(const msghdr& message, size_t size);
  bool Sent(const msghdr& message, size_t size);
  // gRPC is about to close the descriptor.
  void Closing();

 private:
  friend class ConnectionTable;
  enum Life : int { kOpen, kBeingShutDown, kClosed };

  bool Violated(Violation violation);

  const std::shared_ptr<Connections> owner_;
  const int file_;
  const Peer peer_;
  const std::string key_;
  const int64_t since_ns_;
  TrafficGuard traffic_;
  std::atomic<Life> life_{kOpen};
  std::atomic<bool> ended_{false};  // by ShutDown
  std::atomic<uint64_t> reads_{0};
  std::shared_ptr<Connection> in_table_;  // itself, while it is in the table
};

// The connections by descriptor, in the whole process. An entry exists from before gRPC gets the
// descriptor until gRPC closes it, which the hook of close() sees before the number can be used
// again. A call keeps its connection's descriptor open: its stream holds a reference to the
// transport, whose destruction closes the descriptor. So a call can look up its peer by the number
// that gRPC tells, as long as the call exists, even when the client has gone.
class ConnectionTable {
 public:
  // Made at the first call, for descriptors below the hard limit of the process.
  static ConnectionTable& Process();

  // The descriptor has no entry. Returns false if it is beyond the table.
  bool Add(int file, const std::shared_ptr<Connection>& connection);

  // nullptr if there is none. Valid as long as the descriptor cannot be closed.
  static Connection* Find(int file);
  // Removes the entry. Returns nullptr if there is none.
  static std::shared_ptr<Connection> Take(int file);

 private:
  using Slot = std::atomic<Connection*>;
  explicit ConnectionTable(size_t size);

  const size_t size_;
  // Pages of zeros, which take memory only once they are used.
  Slot* const slots_;
};

}  // namespace pto::daemon::rpc

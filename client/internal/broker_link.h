#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/optional.h"
#include "client/internal/deadline.h"
#include "client/internal/mapping.h"
#include "proto/broker/message.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/mutex.h"

namespace pto::internal {

// Why a buffer was not mapped.
enum class MapRefusal {
  kLater,  // a run uses it, or the broker does not answer: retrying may help
  kLimit,  // no more memory can be shared until other buffers are released
  kNever,
};

// A session's connection to the daemon's memory broker, created on demand. If it fails, transfers
// use gRPC for a while before it is tried again. Thread-safe.
class BrokerLink : public std::enable_shared_from_this<BrokerLink> {
 public:
  // Does not connect yet. `socket` is a path.
  BrokerLink(std::string socket, std::string session_id, const broker::Key& key);
  BrokerLink(const BrokerLink&) = delete;
  BrokerLink& operator=(const BrokerLink&) = delete;

  // 32 unpredictable bytes.
  static broker::Key RandomKey();

  // Maps a buffer of the session, by id. Returns nullptr and the reason if that is not possible.
  std::shared_ptr<Mapping> Map(const std::string& buffer_id, uint64_t bytes,
                               const Deadline& deadline, MapRefusal* why);
  // Whether the client may access the region now: no run uses the buffer, and the buffer and its
  // session still exist.
  bool Check(Region region, const Deadline& deadline);
  // Reports that the region is unmapped. Does not wait for long.
  void Release(Region region);
  // Whether the connection on which the region was received is gone.
  bool IsStale(Region region) const {
    return region.connection != connection_.load(std::memory_order_acquire);
  }
  // Stops all requests.
  void Close();

 private:
  // The right to use the socket.
  class Turn;

  struct Answer {
    broker::Reply reply;
    FileDescriptor descriptor;
    uint64_t connection = 0;
  };

  // Sends a request and waits for its reply. nullopt if the link has failed. `region` is the region
  // of the request, if it has one.
  absl::optional<Answer> Ask(broker::Request request, const Deadline& deadline,
                             const Region* region = nullptr);
  bool Connect(const Deadline& deadline);
  absl::optional<Answer> Exchange(const broker::Request& request, const Deadline& deadline);
  absl::optional<Answer> Receive(const Deadline& deadline) const;
  // Called by the thread that has the turn: closes the link for all, for a while.
  void Fail();

  const std::string path_;
  const std::string session_id_;
  const broker::Key key_;

  Mutex mutex_;
  CondVar free_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t retry_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // not before
  int64_t pause_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  // ---- written by the thread that has the turn
  FileDescriptor socket_;
  uint64_t next_number_ = 1;
  std::atomic<uint64_t> connection_{0};
};

}  // namespace pto::internal

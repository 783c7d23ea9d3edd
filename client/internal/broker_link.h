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
  kLater,  // a run uses it, or the broker does not answer: asking again could help
  kLimit,  // no more can be shared; there is room when others have given some back
  kNever,
};

// A session's connection to the daemon's memory broker, made when it is needed. When it fails, all
// that could have gone this way goes over gRPC for a while, and then another is tried.
// Thread-safe.
class BrokerLink : public std::enable_shared_from_this<BrokerLink> {
 public:
  // Nothing is done yet. `socket` is a path.
  BrokerLink(std::string socket, std::string session_id, const broker::Key& key);
  BrokerLink(const BrokerLink&) = delete;
  BrokerLink& operator=(const BrokerLink&) = delete;

  // 32 bytes that nobody can guess.
  static broker::Key RandomKey();

  // A buffer of the session, by its id. When it cannot be had, nullptr, and why.
  std::shared_ptr<Mapping> Map(const std::string& buffer_id, uint64_t bytes,
                               const Deadline& deadline, MapRefusal* why);
  // Whether the region's contents are the client's now: no run uses the buffer, and it and its
  // session are there.
  bool Check(Region region, const Deadline& deadline);
  // The region is not mapped any more. Does not wait for long.
  void Release(Region region);
  // Whether the connection is gone on which the region was given.
  bool IsStale(Region region) const {
    return region.connection != connection_.load(std::memory_order_acquire);
  }
  // No more questions.
  void Close();

 private:
  // The right to use the socket.
  class Turn;

  struct Answer {
    broker::Reply reply;
    FileDescriptor descriptor;
    uint64_t connection = 0;
  };

  // Sends a request and waits for its reply. Nullopt when the link has failed. `region` is that of
  // the request, if it has one.
  absl::optional<Answer> Ask(broker::Request request, const Deadline& deadline,
                             const Region* region = nullptr);
  bool Connect(const Deadline& deadline);
  absl::optional<Answer> Exchange(const broker::Request& request, const Deadline& deadline);
  absl::optional<Answer> Receive(const Deadline& deadline) const;
  // The one that has the turn gives up, for all and for a while.
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
  // ---- written by whoever has the turn
  FileDescriptor socket_;
  uint64_t next_number_ = 1;
  std::atomic<uint64_t> connection_{0};
};

}  // namespace pto::internal

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "client/internal/broker_link.h"
#include "client/internal/deadline.h"
#include "client/internal/mapping.h"
#include "runtime/base/mutex.h"

namespace pto::internal {

// Access to a buffer's contents through the memory broker; shared by all copies of a handle.
// Whatever it cannot do is done over gRPC, which then reports the error. Thread-safe.
class BufferShare {
 public:
  // Smaller transfers are not worth the requests to the broker.
  static constexpr uint64_t kLeastBytes = 64 << 10;

  BufferShare(std::shared_ptr<BrokerLink> link, std::string buffer_id, uint64_t bytes);

  // Copies, and returns whether no run used the buffer before or after. `offset` and size must be
  // within the buffer.
  bool Write(std::span<const std::byte> data, uint64_t offset, const Deadline& deadline);
  bool Read(std::span<std::byte> data, uint64_t offset, const Deadline& deadline);

  // The buffer's memory, or nullptr and the reason.
  std::shared_ptr<Mapping> Map(const Deadline& deadline, MapRefusal* why);
  // The buffer is deleted. Existing mappings stay.
  void Drop();

 private:
  // Drops a mapping that the daemon does not know any more.
  void ForgetStale() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For a transfer of that many bytes: also nullptr if mapping the whole buffer is not worthwhile.
  std::shared_ptr<Mapping> MapFor(uint64_t bytes, const Deadline& deadline);

  const std::shared_ptr<BrokerLink> link_;
  const std::string buffer_id_;
  const uint64_t bytes_;

  Mutex mutex_;
  std::shared_ptr<Mapping> mapping_ ABSL_GUARDED_BY(mutex_);
  CondVar asked_;
  bool asking_ ABSL_GUARDED_BY(mutex_) = false;
  bool hopeless_ ABSL_GUARDED_BY(mutex_) = false;
  // The last request found no room. Transfers do not ask again, because they would all wait for the
  // answer.
  bool no_room_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t copied_ ABSL_GUARDED_BY(mutex_) = 0;  // over gRPC
};

}  // namespace pto::internal

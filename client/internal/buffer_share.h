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

// The way to a buffer's contents through the memory broker; shared by all copies of a handle.
// What it does not do, for whatever reason, is to be done over gRPC, which then says what is wrong.
// Thread-safe.
class BufferShare {
 public:
  // Less than this is not worth the questions to the broker.
  static constexpr uint64_t kLeastBytes = 64 << 10;

  BufferShare(std::shared_ptr<BrokerLink> link, std::string buffer_id, uint64_t bytes);

  // Copies, and returns whether no run has used the buffer before or after. `offset` and size are
  // within the buffer.
  bool Write(std::span<const std::byte> data, uint64_t offset, const Deadline& deadline);
  bool Read(std::span<std::byte> data, uint64_t offset, const Deadline& deadline);

  // The buffer's memory, or nullptr, and why.
  std::shared_ptr<Mapping> Map(const Deadline& deadline, MapRefusal* why);
  // The buffer is gone. Who has mapped it keeps that.
  void Drop();

 private:
  // Without a mapping that the daemon knows nothing of any more.
  void ForgetStale() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For a transfer of that many bytes: nullptr also when it is not worth mapping all of the buffer.
  std::shared_ptr<Mapping> MapFor(uint64_t bytes, const Deadline& deadline);

  const std::shared_ptr<BrokerLink> link_;
  const std::string buffer_id_;
  const uint64_t bytes_;

  Mutex mutex_;
  std::shared_ptr<Mapping> mapping_ ABSL_GUARDED_BY(mutex_);
  CondVar asked_;
  bool asking_ ABSL_GUARDED_BY(mutex_) = false;
  bool hopeless_ ABSL_GUARDED_BY(mutex_) = false;
  // There was no room when this was asked for last. Transfers do not ask again: they would all wait
  // for the answer.
  bool no_room_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t copied_ ABSL_GUARDED_BY(mutex_) = 0;  // over gRPC
};

}  // namespace pto::internal

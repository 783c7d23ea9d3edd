#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/hccl/hccl_config.h"
#include "runtime/chip/ascend/cann/cann_functions.h"
#include "runtime/chip/ascend/cann/hccl_abi.h"

namespace pto::comm {

// One rank's end of an HCCL communicator. It starts in two phases: when all ranks are ready, rank 0
// makes the root, somebody relays it, and then all join at the same time; so that no rank waits in
// the vendor's code for one that has not started. Joining ends with a first operator, because ranks
// connect only then.
//
// Operators are put into the stream and end in Await, which is bounded. After a timeout or an
// error, also of an operator that could not be put there, the group is broken: its stream is
// aborted, and everything else fails. If the release cannot abort it, operators may still run, and
// what they use is left to the next reset of the device. All calls come from the thread that owns
// the device. Addresses are of the device.
class HcclGroup {
 public:
  // The calling thread must have a device. The root works for one communicator.
  static absl::StatusOr<cann::HcclRoot> MakeRoot(const cann::Functions& cann);
  // Waits for all ranks: HCCL_CONNECT_TIMEOUT, and then the warm-up. CHIP_MEMORY_EXHAUSTED if its
  // buffers do not fit; DEVICE_FAILED names the ranks that did not come, as far as HCCL does.
  static absl::StatusOr<std::unique_ptr<HcclGroup>> Join(const cann::Functions& cann,
                                                         const cann::HcclRoot& root, uint32_t rank,
                                                         uint32_t size, cann::AclStream stream,
                                                         const HcclOptions& options);
  ~HcclGroup();
  HcclGroup(const HcclGroup&) = delete;
  HcclGroup& operator=(const HcclGroup&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  bool broken() const { return !broken_.ok(); }

  absl::Status AllReduce(uint64_t from, uint64_t to, uint64_t count, cann::HcclType type,
                         cann::HcclReduction op);
  absl::Status Broadcast(uint64_t data, uint64_t count, cann::HcclType type, uint32_t root);
  // `to` has `count` elements of each rank.
  absl::Status AllGather(uint64_t from, uint64_t to, uint64_t count, cann::HcclType type);
  // `from` has `count` elements for each rank.
  absl::Status ReduceScatter(uint64_t from, uint64_t to, uint64_t count, cann::HcclType type,
                             cann::HcclReduction op);
  // In elements, one of each for each rank.
  absl::Status AllToAll(uint64_t from, absl::Span<const uint64_t> from_counts,
                        absl::Span<const uint64_t> from_places, uint64_t to,
                        absl::Span<const uint64_t> to_counts, absl::Span<const uint64_t> to_places,
                        cann::HcclType type);

  // Waits for what was begun.
  absl::Status Await(absl::Duration timeout);
  // All ranks have come. A small reduction: HcclBarrier has no limit of its own.
  absl::Status Barrier(absl::Duration timeout);
  // What the communicator says of itself, without waiting.
  absl::Status Health();
  // Leaves. Waits a little while operators are still in use, and then aborts them.
  absl::Status Leave();

 private:
  HcclGroup(const cann::Functions& cann, uint32_t rank, uint32_t size, cann::AclStream stream,
            std::string name)
      : cann_(cann), rank_(rank), size_(size), stream_(stream), name_(std::move(name)) {}

  absl::Status WarmUp(absl::Duration timeout);
  absl::Status CheckHccl(int code, absl::string_view what);
  // The same for an operator: the other ranks wait for it.
  absl::Status CheckBegun(int code, absl::string_view what);
  // Ends what the stream does, so that the thread can go on.
  absl::Status Break(absl::Status why);

  const cann::Functions& cann_;
  const uint32_t rank_;
  const uint32_t size_;
  const cann::AclStream stream_;
  const std::string name_;
  cann::HcclCommunicator comm_ = nullptr;
  void* word_ = nullptr;  // of the device, for barriers
  absl::Status broken_;
  bool stuck_ = false;  // the stream could not be aborted
};

}  // namespace pto::comm

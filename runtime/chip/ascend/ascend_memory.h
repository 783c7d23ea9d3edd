#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/chip/allocation.h"
#include "runtime/chip/ascend/chip_host.h"
#include "runtime/chip/ascend/epoch_address.h"
#include "runtime/chip/device_memory.h"

namespace pto::ascend {

// The memory of an Ascend chip. It has no address that the daemon could dereference: bytes go
// through the chip's host, two chunks at a time. Thread-safe.
class AscendMemory final : public engine::DeviceMemory,
                           public std::enable_shared_from_this<AscendMemory> {
 public:
  static std::shared_ptr<AscendMemory> Create(uint32_t chip, uint64_t bytes,
                                              std::shared_ptr<ChipHost> host);

  absl::StatusOr<std::shared_ptr<engine::Allocation>> Allocate(uint64_t bytes) override;

 private:
  friend class AscendAllocation;
  AscendMemory(uint32_t chip, uint64_t bytes, std::shared_ptr<ChipHost> host)
      : DeviceMemory(chip, bytes), host_(std::move(host)) {}

  const std::shared_ptr<ChipHost> host_;
};

// A range of it. After a fault of the chip the range is gone: every use fails with DEVICE_FAILED.
class AscendAllocation final : public engine::Allocation {
 public:
  AscendAllocation(std::shared_ptr<AscendMemory> owner, uint64_t bytes, uint64_t taken,
                   uint64_t address, uint64_t epoch);
  ~AscendAllocation() override;

  // Where kernels see it.
  uint64_t device_address() const { return address_; }
  // The same for tensors of posts: AscendLane refuses it when the chip has lost the memory.
  uint64_t post_address() const { return WithEpoch(address_, epoch_); }
  // DEVICE_FAILED if the chip has lost it.
  absl::Status CheckAlive() const;

  absl::Status Write(uint64_t offset, const void* from, uint64_t bytes) override;
  absl::Status Read(uint64_t offset, void* to, uint64_t bytes) override;
  absl::Status Fill(uint64_t offset, uint64_t bytes, std::byte value) override;
  absl::Status CopyFrom(uint64_t offset, engine::Allocation& from, uint64_t from_offset,
                        uint64_t bytes) override;

 private:
  // Copies through slots; `put` fills a slot before it goes out, `take` empties one that came back.
  template <typename Put, typename Take>
  absl::Status Transfer(uint32_t kind, uint64_t offset, uint64_t bytes, Put put, Take take);

  const std::shared_ptr<AscendMemory> owner_;
  const uint64_t taken_;
  const uint64_t address_;
  const uint64_t epoch_;
};

}  // namespace pto::ascend

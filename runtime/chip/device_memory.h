#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/chip/allocation.h"
#include "runtime/chip/usage_history.h"

namespace pto::engine {

// The memory of one chip. Charges allocations against the chip's total. Allocations keep it alive.
// Thread-safe.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Zeroed memory. RESOURCE_EXHAUSTED / CHIP_MEMORY_EXHAUSTED if the chip or the host has no more.
  virtual absl::StatusOr<std::shared_ptr<Allocation>> Allocate(uint64_t bytes) = 0;
  // The same, for code that dereferences the memory. NOT_AVAILABLE if the host cannot see the
  // chip's memory.
  absl::StatusOr<std::shared_ptr<HostAllocation>> AllocateHost(uint64_t bytes);

  // How much memory of this machine an allocation of this size takes, at most; 0 if the chip has
  // its own.
  virtual uint64_t HostBytes(uint64_t /*bytes*/) const { return 0; }

  uint32_t chip() const { return chip_; }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  // The history of used_bytes().
  const UsageHistory& history() const { return history_; }

 protected:
  DeviceMemory(uint32_t chip, uint64_t total_bytes) : chip_(chip), total_bytes_(total_bytes) {}

  // Charges `taken` bytes, the rounded size of a request. CHIP_MEMORY_EXHAUSTED if they do not fit.
  absl::Status Take(uint64_t requested, uint64_t taken);
  void GiveBack(uint64_t taken);
  absl::Status Exhausted(uint64_t requested, uint64_t used, absl::string_view why) const;

 private:
  void NoteUse() {
    history_.Add([this] { return used_bytes(); });
  }

  const uint32_t chip_;
  const uint64_t total_bytes_;
  std::atomic<uint64_t> used_bytes_{0};
  UsageHistory history_;
};

}  // namespace pto::engine

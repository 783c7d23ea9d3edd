#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/chip/device_memory.h"

namespace pto::engine {

// The memory of a simulated chip: pages of this process, charged against a limit. Allocations can
// be moved to a file that other processes map. Thread-safe.
class SimMemory final : public DeviceMemory, public std::enable_shared_from_this<SimMemory> {
 public:
  static std::shared_ptr<SimMemory> Create(uint32_t chip, uint64_t total_bytes);

  absl::StatusOr<std::shared_ptr<Allocation>> Allocate(uint64_t bytes) override;

 private:
  friend class SimAllocation;
  using DeviceMemory::DeviceMemory;
};

}  // namespace pto::engine

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/chip/device_memory.h"
#include "runtime/chip/mapping_budget.h"
#include "runtime/chip/sim/page_pool.h"
#include "runtime/chip/sim/pager.h"

namespace pto::engine {

// The memory of a simulated chip: pages of this process, charged against a limit. Allocations can
// be moved to a file that other processes map. Thread-safe.
class SimMemory final : public DeviceMemory, public std::enable_shared_from_this<SimMemory> {
 public:
  static std::shared_ptr<SimMemory> Create(
      uint32_t chip, uint64_t total_bytes,
      std::shared_ptr<MappingBudget> mappings = MappingBudget::OfThisProcess(),
      Pager& pager = Pager::Real());

  // Whole pages.
  uint64_t HostBytes(uint64_t bytes) const override;

  absl::StatusOr<std::shared_ptr<Allocation>> Allocate(uint64_t bytes) override;

 private:
  friend class SimAllocation;
  SimMemory(uint32_t chip, uint64_t total_bytes, std::shared_ptr<MappingBudget> mappings,
            Pager& pager)
      : DeviceMemory(chip, total_bytes), pool_(std::move(mappings), pager) {}

  PagePool pool_;
};

}  // namespace pto::engine

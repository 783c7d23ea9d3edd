#include "runtime/chip/testing/device_only_chip.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/chip/device_memory.h"

namespace pto::engine::testing {
namespace {

class DeviceOnlyMemory final : public DeviceMemory,
                               public std::enable_shared_from_this<DeviceOnlyMemory> {
 public:
  DeviceOnlyMemory(uint32_t chip, uint64_t bytes) : DeviceMemory(chip, bytes) {}

  absl::StatusOr<std::shared_ptr<Allocation>> Allocate(uint64_t bytes) override {
    PTO_RETURN_IF_ERROR(Take(bytes, bytes));
    return std::make_shared<Range>(shared_from_this(), bytes);
  }

 private:
  class Range final : public Allocation {
   public:
    Range(std::shared_ptr<DeviceOnlyMemory> owner, uint64_t bytes)
        : Allocation(owner->chip(), bytes), owner_(std::move(owner)), contents_(bytes) {}
    ~Range() override { owner_->GiveBack(bytes()); }

    absl::Status Write(uint64_t offset, const void* from, uint64_t bytes) override {
      CheckRange(offset, bytes);
      if (bytes > 0) std::memcpy(contents_.data() + offset, from, bytes);
      return absl::OkStatus();
    }
    absl::Status Read(uint64_t offset, void* to, uint64_t bytes) override {
      CheckRange(offset, bytes);
      if (bytes > 0) std::memcpy(to, contents_.data() + offset, bytes);
      return absl::OkStatus();
    }
    absl::Status Fill(uint64_t offset, uint64_t bytes, std::byte value) override {
      CheckRange(offset, bytes);
      std::fill_n(contents_.begin() + static_cast<ptrdiff_t>(offset), bytes, value);
      return absl::OkStatus();
    }

   private:
    void CheckRange(uint64_t offset, uint64_t bytes) const {
      PTO_CHECK(offset <= contents_.size() && bytes <= contents_.size() - offset,
                "a copy lies within its memory");
    }

    const std::shared_ptr<DeviceOnlyMemory> owner_;
    std::vector<std::byte> contents_;
  };
};

class DeviceOnlyChip final : public Chip {
 public:
  DeviceOnlyChip(uint32_t index, ChipSpec spec)
      : Chip(index, spec, std::make_shared<DeviceOnlyMemory>(index, spec.memory_bytes)) {}
  std::string Probe() override { return ""; }
};

}  // namespace

std::shared_ptr<Chip> MakeDeviceOnlyChip(uint32_t index, uint64_t memory_bytes) {
  ChipSpec spec;
  spec.backend = "device-only";
  spec.clusters = 2;
  spec.memory_bytes = memory_bytes;
  spec.host_visible = false;
  return std::make_shared<DeviceOnlyChip>(index, std::move(spec));
}

}  // namespace pto::engine::testing

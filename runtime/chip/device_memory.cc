#include "runtime/chip/device_memory.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::engine {

absl::StatusOr<std::shared_ptr<HostAllocation>> DeviceMemory::AllocateHost(uint64_t bytes) {
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Allocation> memory, Allocate(bytes));
  return Allocation::ToHost(memory);
}

absl::Status DeviceMemory::Exhausted(uint64_t requested, uint64_t used,
                                     absl::string_view why) const {
  return Error(reason::kChipMemoryExhausted,
               absl::StrCat("chips/", chip_, " cannot allocate ", requested, " bytes: ", why))
      .With("chip", absl::StrCat("chips/", chip_))
      .Limit("memory_total_bytes", total_bytes_, used, requested);
}

absl::Status DeviceMemory::Take(uint64_t requested, uint64_t taken) {
  const uint64_t used = used_bytes();
  if (requested > total_bytes_) {
    return Exhausted(requested, used, absl::StrCat("its memory has ", total_bytes_, " bytes"));
  }
  if (used_bytes_.fetch_add(taken, std::memory_order_relaxed) + taken > total_bytes_) {
    GiveBack(taken);
    return Exhausted(requested, used,
                     absl::StrCat(used, " of ", total_bytes_, " bytes are in use"));
  }
  NoteUse();
  return absl::OkStatus();
}

void DeviceMemory::GiveBack(uint64_t taken) {
  used_bytes_.fetch_sub(taken, std::memory_order_relaxed);
  NoteUse();
}

}  // namespace pto::engine

#pragma once

#include <cstdint>

#include "absl/types/optional.h"

namespace pto::bench {

// Resident memory of this process, without files: what all allocators together take from the
// machine, in whole pages.
uint64_t ResidentBytes();

// Resets PeakResidentBytes. Returns false if the system does not support that.
bool ResetPeakResident();
// The peak of resident memory since then, including files.
absl::optional<uint64_t> PeakResidentBytes();

}  // namespace pto::bench

#pragma once

#include <cstdint>

#include "absl/types/optional.h"

namespace pto::bench {

// Memory of this process that is in RAM, without files: what all allocators together have of the
// machine, exact to the page.
uint64_t ResidentBytes();

// Lets PeakResidentBytes begin anew. False where the system cannot.
bool ResetPeakResident();
// The most that was in RAM since, files too.
absl::optional<uint64_t> PeakResidentBytes();

}  // namespace pto::bench

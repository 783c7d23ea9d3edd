#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace pto::host {

// A file larger than this is no kernel.
inline constexpr uint64_t kMaxObjectBytes = uint64_t{256} << 20;

// The whole file, from its start, wherever the descriptor's position is. FIELD_INVALID if it is
// empty, too large, or cannot be read.
absl::StatusOr<std::string> ReadObject(int file);

}  // namespace pto::host

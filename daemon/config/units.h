#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace pto::daemon {

// Parses a size: a number of bytes, or one with K, M, G or T for powers of 1,024; "KiB" and the
// like mean the same. Returns false for anything else and for what does not fit.
bool ParseBytes(absl::string_view text, uint64_t* bytes);

// The shortest form that ParseBytes turns back into the same number.
std::string FormatBytes(uint64_t bytes);

}  // namespace pto::daemon

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pto::job {

// Parses a chip list such as `0-3,6`: numbers and ascending ranges, separated by commas. Keeps the
// order; a chip may occur more than once. The message of INVALID_ARGUMENT tells what was expected.
absl::StatusOr<std::vector<uint32_t>> ParseChipList(absl::string_view text);

// Formats a chip list in its shortest form, for example `0-3,6`.
std::string FormatChipList(absl::Span<const uint32_t> chips);

}  // namespace pto::job

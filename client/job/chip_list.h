#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pto::job {

// Reads a list of chips such as `0-3,6`: numbers and rising ranges with commas between, in the
// order given; a chip may come more than once. INVALID_ARGUMENT says what was expected where.
absl::StatusOr<std::vector<uint32_t>> ParseChipList(absl::string_view text);

// The same list in its shortest form: `0-3,6`.
std::string FormatChipList(absl::Span<const uint32_t> chips);

}  // namespace pto::job

#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace pto::internal {

// A valid id that nobody else has: `prefix`, which starts with a letter, and 16 random
// characters.
std::string RandomId(absl::string_view prefix);

}  // namespace pto::internal

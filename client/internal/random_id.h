#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace pto::internal {

// A unique valid id: `prefix`, which must start with a letter, and 16 random characters.
std::string RandomId(absl::string_view prefix);

}  // namespace pto::internal

#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace pto::internal {

// The SHA-256 of the data, 32 bytes.
std::string Sha256(absl::string_view data);

}  // namespace pto::internal

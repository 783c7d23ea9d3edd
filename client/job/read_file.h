#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace pto::job {

// Reads a whole file. The message of FIELD_INVALID contains the file name and the system error.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace pto::job

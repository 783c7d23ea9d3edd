#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace pto::job {

// The whole of a file. FIELD_INVALID with the file's name and the system's words.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace pto::job

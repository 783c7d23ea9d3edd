#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/job/values.h"

namespace pto::job {

// Reads an array in NumPy's .npy format: versions 1.0 to 3.0, little-endian, row-major; floats of
// 2, 4 and 8 bytes, integers of 1 to 8 bytes, booleans. Error messages contain the file name.
absl::StatusOr<Array> ReadNpy(const std::string& path);

// Writes version 1.0. BF16 is saved as float32, because NumPy has no bfloat16.
absl::Status WriteNpy(const std::string& path, const Array& array);

// The same for bytes in memory. Error messages contain no file name.
absl::StatusOr<Array> ParseNpy(absl::string_view bytes);
std::string FormatNpy(const Array& array);

}  // namespace pto::job

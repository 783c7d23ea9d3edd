#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/job/values.h"

namespace pto::job {

// NumPy's file format for one array: versions 1.0 to 3.0, little-endian, rows first; floats of
// 2, 4 and 8 bytes, integers of 1 to 8 bytes, booleans. Errors name the file and the fault.
absl::StatusOr<Array> ReadNpy(const std::string& path);

// Writes version 1.0. NumPy has no bfloat16: such arrays are saved as float32.
absl::Status WriteNpy(const std::string& path, const Array& array);

// The same on bytes in memory; errors name no file.
absl::StatusOr<Array> ParseNpy(absl::string_view bytes);
std::string FormatNpy(const Array& array);

}  // namespace pto::job

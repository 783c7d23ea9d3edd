#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/job/job.pb.h"
#include "client/job/values.h"

namespace pto::job {

// Makes the numbers that `values` describes, of that type and shape. Paths of .npy files are
// relative to `folder`. Errors carry the part of `values` that is wrong as their field, such as
// `inline.values[3]`.
absl::StatusOr<Array> MakeValues(const v1::Values& values, pto::v1::DType dtype,
                                 absl::Span<const int64_t> shape, const std::string& folder);

// `path` as seen from `folder`.
std::string RelativeTo(const std::string& folder, const std::string& path);

}  // namespace pto::job

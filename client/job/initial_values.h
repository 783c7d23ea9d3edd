#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/job/job.pb.h"
#include "client/job/values.h"

namespace pto::job {

// Creates an array of the given type and shape with the numbers that `values` describes. Paths of
// .npy files are relative to `folder`. The field of an error is the invalid part of `values`, for
// example `inline.values[3]`.
absl::StatusOr<Array> MakeValues(const v1::Values& values, pto::v1::DType dtype,
                                 absl::Span<const int64_t> shape, const std::string& folder);

// Resolves `path` relative to `folder`.
std::string RelativeTo(const std::string& folder, const std::string& path);

}  // namespace pto::job

#pragma once

#include <string>

#include "client/job/report.pb.h"
#include "client/job/values.h"

namespace pto::job {

// Summarizes a tensor, with at most its `first` first elements.
v1::TensorReport Summarize(const std::string& name, const Array& array, uint32_t first);

// Returns, for example, `c: F32 4x256, min 0, max 3, mean 1.5: [0, 1, 2, …]`.
std::string Describe(const v1::TensorReport& report);

}  // namespace pto::job

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/job/job_file.h"
#include "client/job/values.h"

namespace pto::job {

// An array of doubles without an element type.
struct Numbers {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

Numbers ToNumbers(const Array& array);

// Computes one operation. FIELD_INVALID if the number or the shapes of the inputs are wrong.
absl::StatusOr<Numbers> Compute(v1::Reference::Op op, const std::vector<const Numbers*>& inputs,
                                double scalar);

// Computes all references of a job. `buffers` has the initial contents by name. JOB_INVALID for
// unknown or duplicate names and for inputs that do not match.
absl::StatusOr<absl::flat_hash_map<std::string, Numbers>> ComputeReferences(
    const JobFile& file, const absl::flat_hash_map<std::string, const Array*>& buffers);

}  // namespace pto::job

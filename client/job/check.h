#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/job/prepared_job.h"
#include "client/job/values.h"

namespace pto::job {

// The result of comparing a tensor with its expected values.
struct CheckResult {
  std::string tensor;
  int64_t elements = 0;
  int64_t mismatches = 0;
  // Largest difference. Infinite if only one side is NaN or infinite.
  double max_error = 0;
  // The first mismatch.
  std::vector<int64_t> index;
  double actual = 0;
  double expected = 0;

  bool ok() const { return mismatches == 0; }
};

// Compares all elements. Both arrays must have the same size. `expected` is first rounded to the
// type of `actual`.
CheckResult Compare(const Array& actual, const std::vector<double>& expected,
                    const v1::Tolerance& tolerance);

// Returns `ok (1024 elements, max error 0)`, or a description of the mismatch.
std::string Describe(const CheckResult& result);

// Executes all checks of a job. `memory` has the bytes of each buffer after the run, in the order
// of PreparedJob::buffers. Returns an error if a check could not be executed.
absl::StatusOr<std::vector<CheckResult>> RunChecks(const PreparedJob& job,
                                                   const std::vector<std::string>& memory);

}  // namespace pto::job

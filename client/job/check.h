#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/job/prepared_job.h"
#include "client/job/values.h"

namespace pto::job {

// How a tensor compares with what it should be.
struct CheckResult {
  std::string tensor;
  int64_t elements = 0;
  int64_t mismatches = 0;
  // Largest difference; infinite when a number is missing or infinite on one side only.
  double max_error = 0;
  // The first mismatch.
  std::vector<int64_t> index;
  double actual = 0;
  double expected = 0;

  bool ok() const { return mismatches == 0; }
};

// Compares all elements; `expected` is rounded to the type of `actual` first, and has as many.
CheckResult Compare(const Array& actual, const std::vector<double>& expected,
                    const v1::Tolerance& tolerance);

// `ok (1024 elements, max error 0)`, or what is off.
std::string Describe(const CheckResult& result);

// Does all checks of a job. `memory` has the bytes of each buffer after the run, in the order
// of PreparedJob::buffers. An error means that a check could not be made.
absl::StatusOr<std::vector<CheckResult>> RunChecks(const PreparedJob& job,
                                                   const std::vector<std::string>& memory);

}  // namespace pto::job

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/graph/image.h"
#include "runtime/graph/task_input.h"

namespace pto::engine {

// Checks how a task is spread over cores and chips, and writes the result to its record. The task's
// kernel must be one of `kernels`.
absl::Status CheckLaunch(const GraphTarget& target,
                         absl::Span<const pto_kernel_info* const> kernels, const TaskInput& task,
                         ImageTask& record);

// Checks a scalar of a kernel that the engine executes itself: comparison, operation or timeout.
// Errors are SCALAR_INVALID.
absl::Status CheckControlScalar(const pto_kernel_info& kernel, size_t scalar, int64_t value);

}  // namespace pto::engine

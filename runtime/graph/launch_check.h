#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/graph/image.h"
#include "runtime/graph/task_input.h"

namespace pto {

// Checks how a task is to be spread over cores and chips, and writes that to its record. The
// task's kernel must be one of `kernels`.
absl::Status CheckLaunch(const GraphTarget& target,
                         absl::Span<const pto_kernel_info* const> kernels, const TaskInput& task,
                         ImageTask& record);

}  // namespace pto

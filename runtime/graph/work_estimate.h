#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/graph/image.h"

// Estimates from the shapes of tensors how long tasks take at least. Most built-in kernels say it:
// pto_kernel_info.cost. Tasks of other kernels count as short.
namespace pto::engine {

// A run is refused only if a task would take so many times longer than it may.
inline constexpr double kHopeless = 20;

// The time that the tasks of a run have, in ns; 0: any time.
struct WorkLimits {
  int64_t run_ns = 0;   // the whole run
  int64_t task_ns = 0;  // a task without its own limit
  int64_t call_ns = 0;  // one call of a kernel, for tasks that have no other limit
  // The threads that share the calls of a task.
  uint32_t threads = 1;
};

// The sum of all calls of the longest task, in ns.
double LongestTaskNs(const GraphImage& image);

// Refuses a run with a task that cannot end in time, by far: TASK_TOO_LONG. Looks at no task if
// `longest_ns`, which is LongestTaskNs, cannot be too long; negative: it is not known.
absl::Status CheckWork(const GraphImage& image, const WorkLimits& limits, double longest_ns = -1);

}  // namespace pto::engine

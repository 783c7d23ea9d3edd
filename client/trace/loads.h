#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/trace/run_trace.h"

namespace pto::trace {

// The number of a run's tasks in each state from a point in time on.
struct Load {
  int64_t time_ns = 0;
  int64_t ready = 0;  // 0 if unknown
  int64_t running = 0;
  int64_t deferred = 0;
};

// By time, the first at 0; at most about `max` points, chosen so that neighbours represent the
// omitted ones.
std::vector<Load> CountLoads(const RunTrace& trace, size_t max);

}  // namespace pto::trace

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/trace/run_trace.h"

namespace pto::trace {

// How many tasks of a run were in each state from a time on.
struct Load {
  int64_t time_ns = 0;
  int64_t ready = 0;  // 0 when it is not known
  int64_t running = 0;
  int64_t deferred = 0;
};

// By time, the first at 0; at most about `max` of them: of those that are left out, nearby ones
// tell.
std::vector<Load> CountLoads(const RunTrace& trace, size_t max);

}  // namespace pto::trace

#pragma once

#include <cstdint>
#include <string>

#include "client/trace/run_trace.h"

namespace pto::trace {

struct ChromeOptions {
  // Maximum number of edges; those of the tasks that start last are omitted first. A note says so.
  uint64_t max_edges = 20'000;
  // Maximum number of points of a counter.
  uint64_t max_points = 10'000;
};

// The trace in Chrome's trace event format, for https://ui.perfetto.dev and chrome://tracing:
//   a process for each chip, a thread for each lane (lanes.h), a complete event for each task,
//   flows for edges, async events for the time that a task was deferred, and a process for the
//   run with counters of ready, running and deferred tasks. A chip's memory is a counter of
//   its process, from the run's acceptance to its end. Tasks that have not ended are slices up to
//   the time of the trace, in a separate category.
std::string FormatChromeTrace(const RunTrace& trace, const ChromeOptions& options = {});

}  // namespace pto::trace

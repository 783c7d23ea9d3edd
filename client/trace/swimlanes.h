#pragma once

#include <cstdint>
#include <string>

#include "client/trace/run_trace.h"

namespace pto::trace {

struct SwimlaneOptions {
  uint32_t width = 1200;
  // Maximum number of edges.
  uint32_t max_edges = 500;
};

// A self-contained picture of a trace: a line for each lane (lanes.h), a bar for each task in its
// kernel's colour, a thin line for the time that it was deferred, and below the numbers of ready
// and running tasks. Bars of a lane that are narrower than half a point are merged.
std::string FormatSvg(const RunTrace& trace, const SwimlaneOptions& options = {});

// The same as a page that describes the task under the mouse, with zoom.
std::string FormatHtml(const RunTrace& trace, const SwimlaneOptions& options = {});

}  // namespace pto::trace

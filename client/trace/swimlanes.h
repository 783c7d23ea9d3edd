#pragma once

#include <cstdint>
#include <string>

#include "client/trace/run_trace.h"

namespace pto::trace {

struct SwimlaneOptions {
  uint32_t width = 1200;
  // Edges beyond these are not drawn.
  uint32_t max_edges = 500;
};

// A picture of a trace that needs nothing but a viewer: a line for each lane (lanes.h), a bar for
// each task in its kernel's colour, the time that it was deferred as a thin line behind it, below
// them how many tasks were ready and running. Bars of a lane that are narrower than half a point
// are drawn together.
std::string FormatSvg(const RunTrace& trace, const SwimlaneOptions& options = {});

// The same as a page that tells of the task under the mouse, and lets you zoom in.
std::string FormatHtml(const RunTrace& trace, const SwimlaneOptions& options = {});

}  // namespace pto::trace

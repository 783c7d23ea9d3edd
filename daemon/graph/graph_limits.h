#pragma once

#include <cstdint>

namespace pto::daemon {

// Limits of a graph besides the number of tasks, which is in GraphTarget. GRAPH_TOO_LARGE beyond.
struct GraphLimits {
  uint64_t max_tensors = 8'388'608;
  // Dependencies that the graph names.
  uint64_t max_edges = 67'108'864;
};

}  // namespace pto::daemon

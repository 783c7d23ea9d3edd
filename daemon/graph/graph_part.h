#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/graph/image.h"
#include "runtime/graph/open_graph.h"

namespace pto::daemon {

// Tasks of a run that arrived together: all of them, or one segment of an open run. Immutable.
struct GraphPart {
  std::shared_ptr<const engine::GraphImage> image;
  uint32_t first_task = 0;   // number of the image's first task in the whole run
  int64_t submitted_ns = 0;  // arrival time, relative to the run's acceptance
  std::vector<engine::GraphSegment::Link> links;  // tasks that wait for tasks of earlier parts

  uint64_t end_task() const { return uint64_t{first_task} + image->task_count(); }
  // Approximate memory use.
  uint64_t bytes() const {
    constexpr uint64_t kObjects = 1024;
    return image->bytes() + links.size() * sizeof(engine::GraphSegment::Link) + kObjects;
  }
};

using GraphParts = std::vector<std::shared_ptr<const GraphPart>>;

}  // namespace pto::daemon

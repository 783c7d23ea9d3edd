#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "daemon/graph/graph_part.h"
#include "pto/v1/run.pb.h"
#include "runtime/graph/image.h"

namespace pto {

// Describes a page of an image's tasks and what waits for them, as GetGraph is asked for it. The
// page has fewer tasks than asked for when more would take more than `max_bytes`, but at least
// one while there are any left. FIELD_INVALID at `first_task` or `max_tasks`.
absl::Status DescribeStructure(const GraphImage& image, const v1::GetGraphRequest& request,
                               v1::GraphStructure* structure, uint64_t max_bytes = 2u << 20);

// The same of a run whose tasks are in these parts, each beginning where the one before it ends.
// Tasks before the first part are not known: a page that was to begin with them begins with that
// part. The run is not named.
absl::Status DescribeRunGraph(const GraphParts& parts, const v1::GetRunGraphRequest& request,
                              v1::RunGraph* graph, uint64_t max_bytes = 2u << 20);

}  // namespace pto

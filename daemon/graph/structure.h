#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "daemon/graph/graph_part.h"
#include "pto/v1/run.pb.h"
#include "runtime/graph/image.h"

namespace pto::daemon {

// Describes a page of an image's tasks and their successors for GetGraph. The page has fewer tasks
// than requested if it would exceed `max_bytes`, but at least one if any are left. FIELD_INVALID at
// `first_task` or `max_tasks`.
absl::Status DescribeStructure(const engine::GraphImage& image, const v1::GetGraphRequest& request,
                               v1::GraphStructure* structure, uint64_t max_bytes = 2u << 20);

// The same for a run whose tasks are in these parts, each beginning where the previous one ends.
// Tasks before the first part are not known any more: a page that should begin with them begins
// with that part. Does not set the run's name.
absl::Status DescribeRunGraph(const GraphParts& parts, const v1::GetRunGraphRequest& request,
                              v1::RunGraph* graph, uint64_t max_bytes = 2u << 20);

}  // namespace pto::daemon

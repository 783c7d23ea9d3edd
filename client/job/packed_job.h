#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/graph_builder.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/kernel.pb.h"

namespace pto::job {

// Puts a graph with names into a builder, which can send it in columns. Named scalars become
// their values. `kernels` tells which scalars are integers: in columns a number has no kind of
// its own. The graph must have passed PrepareJob.
absl::Status FillBuilder(const pto::v1::GraphSpec& graph, absl::Span<const pto::v1::Kernel> kernels,
                         GraphBuilder* builder);

}  // namespace pto::job

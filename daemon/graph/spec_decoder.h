#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/graph/decoded_graph.h"
#include "daemon/graph/graph_limits.h"
#include "pto/v1/graph.pb.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/work_budget.h"

namespace pto {

// Compiles a graph in its nested, named form. `session` is the id of the session that the graph
// belongs to. Everything that can be wrong with the message is refused, with the path of the
// field from the request on, such as `graph.tasks[3].args[1]`. Ends with CLIENT_GONE once
// `cancelled` says so.
absl::StatusOr<DecodedGraph> DecodeGraphSpec(const v1::GraphSpec& spec, absl::string_view session,
                                             const GraphTarget& target,
                                             const GraphLimits& limits = {},
                                             WorkBudget::Cancelled cancelled = nullptr);

}  // namespace pto

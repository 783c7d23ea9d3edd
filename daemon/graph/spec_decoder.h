#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/graph/decoded_graph.h"
#include "daemon/graph/graph_limits.h"
#include "pto/v1/graph.pb.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/work_budget.h"

namespace pto::daemon {

// Compiles a graph in its nested, named form. `session` is the id of the graph's session. Checks
// the whole message; errors have the path of the field in the request, for example
// `graph.tasks[3].args[1]`. Ends with CLIENT_GONE once `cancelled` returns true.
absl::StatusOr<DecodedGraph> DecodeGraphSpec(const v1::GraphSpec& spec, absl::string_view session,
                                             const engine::GraphTarget& target,
                                             const GraphLimits& limits = {},
                                             engine::WorkBudget::Cancelled cancelled = nullptr);

}  // namespace pto::daemon

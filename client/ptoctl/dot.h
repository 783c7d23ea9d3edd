#pragma once

#include <string>

#include "absl/types/span.h"
#include "pto/v1/kernel.pb.h"
#include "pto/v1/run.pb.h"

namespace pto::ptoctl {

// A graph for Graphviz: tasks with their names and kernels, those of a chip in a box of its own,
// and arrows to what waits for them. `graph` has its structure in full columns, perhaps of its
// first tasks only; then a note says how many are missing. `kernels` tells which need no core.
std::string FormatDot(const v1::Graph& graph, absl::Span<const v1::Kernel> kernels);

}  // namespace pto::ptoctl

#pragma once

#include <string>

#include "absl/types/span.h"
#include "pto/v1/kernel.pb.h"
#include "pto/v1/run.pb.h"

namespace pto::ptoctl {

// Formats a graph for Graphviz. Each task shows its name and kernel, the tasks of a chip share a
// box, and arrows point to dependent tasks. `graph` must contain its structure. If the structure
// has only the first tasks, a note shows how many are missing. `kernels` tells which kernels are
// control kernels, which need no core.
std::string FormatDot(const v1::Graph& graph, absl::Span<const v1::Kernel> kernels);

}  // namespace pto::ptoctl

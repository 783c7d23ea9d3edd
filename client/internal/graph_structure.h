#pragma once

#include "pto/v1/run.pb.h"

namespace pto::internal {

// Appends the tasks of a page to those of earlier pages, whose kernels may differ. Fills all
// columns, including those that the daemon omitted.
void AppendStructure(const v1::GraphStructure& page, v1::GraphStructure* all);

}  // namespace pto::internal

#pragma once

#include "pto/v1/run.pb.h"

namespace pto::internal {

// Puts the tasks of a page behind those that came before it, whose kernels may be others. All
// columns are filled, also those that the daemon left out.
void AppendStructure(const v1::GraphStructure& page, v1::GraphStructure* all);

}  // namespace pto::internal

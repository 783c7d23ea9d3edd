#pragma once

#include "runtime/graph/image.h"
#include "runtime/graph/task_input.h"

namespace pto::fuzz {

// Ends the process unless all that the image's records refer to is there, on a node that the
// target describes: whoever executes it looks nothing up twice.
void CheckImage(const GraphImage& image, const GraphTarget& target);

}  // namespace pto::fuzz

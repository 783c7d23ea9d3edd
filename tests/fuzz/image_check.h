#pragma once

#include "runtime/graph/image.h"
#include "runtime/graph/task_input.h"

namespace pto::fuzz {

// Aborts unless all references in the image's records are valid for a node as described by the
// target: the code that executes the image does not check them again.
void CheckImage(const engine::GraphImage& image, const engine::GraphTarget& target);

}  // namespace pto::fuzz

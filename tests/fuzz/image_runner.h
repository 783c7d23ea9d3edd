#pragma once

#include <memory>

#include "runtime/graph/image.h"
#include "runtime/graph/task_input.h"

namespace pto::fuzz {

// Runs an image from its beginning to its end, on memory of its own and on an engine without
// threads, on whose clock time passes only when nothing else can happen. What waits for ever is
// cancelled. Ends the process unless the run ends, each task in one way, and nothing is left of
// it. An image that could take long is left alone: returns whether it was run.
bool RunImage(const std::shared_ptr<const GraphImage>& image, const GraphTarget& target);

}  // namespace pto::fuzz

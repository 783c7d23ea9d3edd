#pragma once

#include <memory>

#include "runtime/graph/image.h"
#include "runtime/graph/task_input.h"

namespace pto::fuzz {

// Runs an image to its end, on its own memory and on an engine without threads, whose clock
// advances only when nothing else can happen. A run that waits forever is cancelled. Aborts unless
// the run ends, each task with one outcome, and nothing of it is left. Skips images that could take
// long; returns whether the image was run.
bool RunImage(const std::shared_ptr<const engine::GraphImage>& image,
              const engine::GraphTarget& target);

}  // namespace pto::fuzz

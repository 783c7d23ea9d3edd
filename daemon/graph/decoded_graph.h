#pragma once

#include <memory>

#include "runtime/graph/image.h"

namespace pto {

// What a graph that came as messages turns into. Tensors, tasks and named scalars have the
// indices that they had there; the name of a slot is the id of a buffer, without its session.
struct DecodedGraph {
  std::shared_ptr<const GraphImage> image;
};

}  // namespace pto

#pragma once

#include <memory>

#include "runtime/graph/image.h"

namespace pto::daemon {

// The result of decoding a graph. Tensors, tasks and named scalars keep their indices; the name of
// a slot is the id of a buffer, without its session.
struct DecodedGraph {
  std::shared_ptr<const engine::GraphImage> image;
};

}  // namespace pto::daemon

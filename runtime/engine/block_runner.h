#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/engine/ready_queue.h"

namespace pto {

// Calls the kernel of one block: lays out its tensors and scalars, and turns what it returns,
// or throws, into a status.
class BlockRunner {
 public:
  static absl::Status Call(const BlockTicket& ticket);
};

}  // namespace pto

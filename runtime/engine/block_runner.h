#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/engine/block_ticket.h"
#include "runtime/engine/run.h"

namespace pto {

// Calls the kernel of one block: lays out its tensors and scalars, and turns what it returns,
// or throws, into a status.
class BlockRunner {
 public:
  static absl::Status Call(const BlockTicket& ticket);

 private:
  static void LayOut(const Run& run, absl::Span<const uint32_t> args, pto_tensor* tensors);
};

}  // namespace pto

#pragma once

#include "absl/status/status.h"
#include "runtime/engine/block_host.h"
#include "runtime/engine/block_ticket.h"
#include "runtime/engine/long_tasks.h"

namespace pto {

class Services;
struct BlockState;

// How a call of a kernel ended. kDeferred: its task is counted, and goes on without it; the call
// itself may have failed.
enum class BlockEnd { kDone, kFailed, kDeferred };

// Calls the kernel of one block: lays out its tensors and scalars, and turns what it returns, or
// throws, into a status.
class BlockRunner {
 public:
  // Of a plain task.
  static BlockEnd Call(Services& services, const BlockTicket& ticket, absl::Status* error);

  // Of any other, whose counter counts the call. `host` is nullptr when it must not wait, and
  // `long_task` when the task is none.
  static BlockEnd CallSlow(Services& services, const BlockTicket& ticket, BlockHost* host,
                           LongTask* long_task, absl::Status* error);

  // The call itself, with all laid out.
  static BlockEnd CallKernel(const pto_kernel_info& kernel, const pto_context& context,
                             BlockState& state, absl::Status* error);
};

}  // namespace pto

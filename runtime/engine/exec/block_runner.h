#pragma once

#include "absl/status/status.h"
#include "runtime/engine/exec/block_host.h"
#include "runtime/engine/exec/kernel_call.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/engine/run/long_tasks.h"

namespace pto::engine {

class Services;

// Calls the kernel of one block: lays out its tensors and scalars, and turns what it returns, or
// throws, into a status.
class BlockRunner {
 public:
  // Of a task that is not plain (see PlainCalls) and whose counter counts the call. `host` is
  // nullptr when it must not wait, and `long_task` when the task is none.
  static BlockEnd CallSlow(Services& services, const BlockTicket& ticket, BlockHost* host,
                           LongTask* long_task, absl::Status* error);
};

}  // namespace pto::engine

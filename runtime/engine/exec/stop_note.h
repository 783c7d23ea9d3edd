#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/base/error.h"
#include "runtime/engine/exec/block_state.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/engine/run/long_tasks.h"
#include "runtime/engine/run/run.h"

namespace pto::engine {

// What is said of a task that was stopped in its middle: which of its calls was under way, on which
// rank and chip, and in which phase. Calls leave it when they return, so that those that end well
// pay nothing for it. Thread-safe.
class StopNote {
 public:
  // Of a call that began at that time, and has returned when its run, or its task, was to stop.
  // `error` is what it ended with.
  static void Leave(BlockState& state, uint64_t began_ticks, absl::Status error);
  // The same for a block that ran elsewhere. `said` is what its kernel said, or what is known of
  // its end.
  static void Leave(const BlockTicket& ticket, LongTask* long_task, uint64_t began_ticks,
                    absl::string_view said, absl::Status error);
  // Of a call that is next, when the time of its task is up.
  static void LeaveNext(const BlockTicket& ticket, LongTask& long_task);

  // The error of a task whose time was up, and that has ended.
  static Error TimeIsUp(const Run& run, uint32_t task, const LongTask& ended);

 private:
  // Adds to the error with which the run was stopped, unless another call has.
  static void SayWhere(const BlockTicket& ticket, absl::string_view said);
};

}  // namespace pto::engine

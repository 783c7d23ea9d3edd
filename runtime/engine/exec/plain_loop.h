#pragma once

#include <cstdint>

#include "runtime/engine/exec/core_stay.h"
#include "runtime/engine/exec/fiber_pool.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/exec/task_flow.h"

namespace pto::engine {

// Runs plain tasks, which are most: calls of kernels that neither wait nor have a deadline, one
// after the other on the core of the stay.
//
// For short kernels the time between two calls is what a graph costs. So the loop does nothing for
// each task that it can do for many, and leaves the rare cases to TaskFlow. Belongs to one worker.
// Not thread-safe.
class PlainLoop {
 public:
  // So many short tasks run before others get their turn.
  static constexpr uint32_t kTurn = 64;

  // `fibers` are those that wait for this thread; nullptr: none.
  PlainLoop(Services& services, TaskFlow& flow, const FiberPool* fibers)
      : services_(services), scheduler_(services.scheduler()), flow_(flow), fibers_(fibers) {}

  // Runs the ticket's blocks. Returns whether they have ended the task; if not, the core is free
  // and the run may be gone.
  bool RunBlocks(CoreStay& stay);
  // Runs the local tasks, if any, after another task on the same core, until none is left.
  void RunLocal(CoreStay& stay);
  // The same for a stay that begins. There is a local task.
  void RunPlain(CoreStay& stay);

 private:
  struct Graph;
  // A plain task of one call has ended well. Returns the task to run next, if it made any ready.
  static uint32_t ReleasePlain(CoreStay& stay, const Graph& graph, uint32_t task);
  // Counts a task, and returns whether others get their turn before the next one.
  bool TurnEnds(CoreStay& stay) {
    return (++stay.count >= kTurn || stay.was_long || stay.GangWaits()) && CheckTurn(stay);
  }
  bool CheckTurn(CoreStay& stay);
  // Whether others wait for the core or the thread.
  bool ShouldYield(CoreStay& stay);

  Services& services_;
  Scheduler& scheduler_;
  TaskFlow& flow_;
  const FiberPool* const fibers_;
};

}  // namespace pto::engine

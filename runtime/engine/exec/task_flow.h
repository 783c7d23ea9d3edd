#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/engine/exec/core_stay.h"
#include "runtime/engine/exec/joint_starter.h"
#include "runtime/engine/exec/services.h"

namespace pto::engine {

// Ends tasks and passes on the tasks that they make ready: the next ones of this core stay in
// `stay.released.local`, others go to the queues, to other runs or to threads that sleep. All lanes
// of a worker use it. Not thread-safe.
class TaskFlow {
 public:
  TaskFlow(Services& services, JointStarter& starter)
      : services_(services), scheduler_(services.scheduler()), starter_(starter) {}

  // Makes tasks ready that wait for nothing any more. The caller holds the run, and runs nothing
  // else now. Tasks that are passed over are left in `stay.released.linked` if tasks of other runs
  // may wait for them. See Scheduler::Push.
  void BeginTasks(CoreStay& stay, Run& run, absl::Span<const uint32_t> tasks, bool taking_one);

  // A task has ended: counts it, tells its successors and dispatches those that are ready.
  void EndTask(CoreStay& stay, uint32_t task, bool failed, int64_t start_ns,
               int64_t deferred_ns = 0);
  // The first half of it. DispatchReleased is the second.
  void CountEnd(CoreStay& stay, uint32_t task, bool failed, int64_t start_ns,
                int64_t deferred_ns = 0);
  // The same as EndTask for a task that may have a deadline.
  void EndSlow(CoreStay& stay, uint32_t task, bool failed, int64_t start_ns);
  // The only call of the ticket's plain task has ended; the task may go on without it.
  void EndDeferred(CoreStay& stay, absl::Status error);

  // Puts a task that waits for nothing any more into one of the lists of `stay.released`.
  void SortOut(CoreStay& stay, uint32_t task, MetDependencies::State state);
  // Skips the tasks in `released.skipped` and those behind them.
  void SkipPoisoned(CoreStay& stay);
  // Empties `stay.released` but for the local tasks.
  void DispatchReleased(CoreStay& stay);
  // Tells the tasks of other runs that wait for those in `stay.released.linked`.
  void ReleaseLinked(CoreStay& stay);

  // Queues the local tasks below place `count`, which would be run last.
  void GiveAway(CoreStay& stay, size_t count);
  // Queues local tasks for workers that sleep, if they are worth the wake-up.
  void ShareSurplus(CoreStay& stay);

 private:
  // Tells the successors of a task that it has ended. Skips those that cannot run.
  void Release(CoreStay& stay, uint32_t task, bool failed);
  void Tell(CoreStay& stay, uint32_t ended, bool failed);
  // Begins the tasks in `released.special`, and those that become ready when one is passed over.
  void DispatchSpecial(CoreStay& stay);
  // Ends a task whose predicate does not hold.
  void PassOver(CoreStay& stay, uint32_t task);
  // Queues the tasks for other cores.
  void PushElsewhere(CoreStay& stay);

  Services& services_;
  Scheduler& scheduler_;
  JointStarter& starter_;
};

}  // namespace pto::engine

#pragma once

#include <cstdint>

#include "runtime/base/timer.h"
#include "runtime/engine/exec/blocking_pool.h"
#include "runtime/engine/queue/errand.h"
#include "runtime/engine/queue/scheduler.h"
#include "runtime/engine/run/long_tasks.h"
#include "runtime/engine/signal/wait_table.h"

namespace pto {

// What all workers and all blocks of an engine share beside its queues. Thread-safe.
class Services {
 public:
  Services(Scheduler& scheduler, TimerQueue* timers)
      : scheduler_(scheduler), timers_(timers), errands_(scheduler.parking()) {}

  Scheduler& scheduler() { return scheduler_; }
  const Clock& clock() const { return scheduler_.clock(); }
  WaitTable& waits() { return waits_; }
  ErrandQueue& errands() { return errands_; }
  BlockingPool& pool() { return pool_; }
  // nullptr: there are no deadlines.
  TimerQueue* timers() { return timers_; }

  // Notes that a task has started, if it has not, and sets its deadline.
  LongTask& BeginLong(Run& run, uint32_t task);
  // The task has ended. Returns what was known of it; nullptr when it was not a long one.
  std::unique_ptr<LongTask> EndLong(Run& run, uint32_t task);

  // The time so long after another one; 0 when there is no limit, or it never comes.
  int64_t DeadlineAfter(int64_t start_ns, int64_t timeout_ns) const;
  // Notes that a wait of the run has begun, in a long task or not, and sets its deadline unless
  // that is 0.
  void BeginWait(Run& run, TaskWaiterLink& waiter, LongTask* long_task, int64_t at_ns);

  // Ends all waits of a run that was stopped.
  void CancelWaits(Run& run);

 private:
  // Deadlines of one run that are seen to before those of other runs have their turn: some 100 us
  // of work.
  static constexpr size_t kExpireAtOnce = 64;

  // Has the run looked at when its next deadline has come.
  TimerQueue::Id SetTimer(Run& run, TimerQueue::Id id, int64_t at_ns);
  void Expire(Run& run);

  Scheduler& scheduler_;
  TimerQueue* const timers_;
  WaitTable waits_;
  ErrandQueue errands_;
  BlockingPool pool_;
};

}  // namespace pto

#pragma once

#include <cstdint>

#include "runtime/base/timer.h"
#include "runtime/engine/blocking_pool.h"
#include "runtime/engine/errand.h"
#include "runtime/engine/long_tasks.h"
#include "runtime/engine/scheduler.h"
#include "runtime/engine/wait_table.h"

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

  // Ends all waits of a run that was stopped.
  void CancelWaits(Run& run) { EndWaits(run, LongTasks::kAllTasks, WaitEnd::kCancelled); }

 private:
  void EndWaits(Run& run, uint32_t task, WaitEnd end);
  void Expire(Run& run, uint32_t task);

  Scheduler& scheduler_;
  TimerQueue* const timers_;
  WaitTable waits_;
  ErrandQueue errands_;
  BlockingPool pool_;
};

}  // namespace pto

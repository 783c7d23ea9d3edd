#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"
#include "runtime/engine/exec/blocking_pool.h"
#include "runtime/engine/lane/completion_ring.h"
#include "runtime/engine/lane/lane.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/queue/errand.h"
#include "runtime/engine/queue/scheduler.h"
#include "runtime/engine/run/long_tasks.h"
#include "runtime/engine/signal/wait_table.h"

namespace pto::engine {

// What all workers and all blocks of an engine share beside its queues. Thread-safe.
class Services {
 public:
  Services(Scheduler& scheduler, TimerQueue* timers, int64_t lane_grace_ns)
      : scheduler_(scheduler),
        timers_(timers),
        lane_grace_ns_(lane_grace_ns),
        errands_(scheduler.parking()),
        completions_(scheduler.parking()) {}
  // All runs must have ended.
  ~Services();

  Scheduler& scheduler() { return scheduler_; }
  const Clock& clock() const { return scheduler_.clock(); }
  WaitTable& waits() { return waits_; }
  ErrandQueue& errands() { return errands_; }
  BlockingPool& pool() { return pool_; }
  // What the lanes have reported.
  CompletionRing& completions() { return completions_; }
  // Whether there is work for a worker that needs no core.
  bool has_errands() const { return errands_.size() > 0 || completions_.size() > 0; }
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

  // Needs timers.
  std::shared_ptr<LanePort> AddLane(std::shared_ptr<Lane> lane);
  // Cancels the posts of a run that was stopped; with `late_only`, those of its late tasks.
  void CancelPosts(const Run& run, bool late_only);
  // Kills all lanes.
  void LoseLanes(absl::string_view what);

 private:
  // Deadlines of one run that are seen to before those of other runs have their turn: some 100 us
  // of work.
  static constexpr size_t kExpireAtOnce = 64;

  // Has the run looked at when its next deadline has come.
  TimerQueue::Id SetTimer(Run& run, TimerQueue::Id id, int64_t at_ns);
  void Expire(Run& run);
  // The lanes that still exist.
  std::vector<std::shared_ptr<LanePort>> Lanes();

  Scheduler& scheduler_;
  TimerQueue* const timers_;
  const int64_t lane_grace_ns_;
  WaitTable waits_;
  ErrandQueue errands_;
  CompletionRing completions_;
  Mutex lanes_mutex_;
  std::vector<std::weak_ptr<LanePort>> lanes_ ABSL_GUARDED_BY(lanes_mutex_);
  BlockingPool pool_;
};

}  // namespace pto::engine

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "runtime/base/alarm.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"
#include "runtime/engine/exec/blocking_pool.h"
#include "runtime/engine/lane/lane.h"
#include "runtime/engine/lane/lane_news_queue.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/queue/errand.h"
#include "runtime/engine/queue/scheduler.h"
#include "runtime/engine/run/long_tasks.h"
#include "runtime/engine/signal/wait_table.h"

namespace pto::engine {

// What the workers and blocks of an engine share, except its queues. Thread-safe.
class Services {
 public:
  struct LaneLimits {
    int64_t grace_ns = 0;  // how long a cancelled post may take to end
    // How long a post of a task without a time of its own may run without waiting, and what is done
    // with those that have run longer; 0: there is no limit.
    int64_t call_ns = 0;
    std::function<void(Run& run, uint32_t task)> end_call = nullptr;
  };

  Services(Scheduler& scheduler, TimerQueue* timers, LaneLimits lane_limits);
  // All runs must have ended.
  ~Services();

  Scheduler& scheduler() { return scheduler_; }
  const Clock& clock() const { return scheduler_.clock(); }
  WaitTable& waits() { return waits_; }
  ErrandQueue& errands() { return errands_; }
  BlockingPool& pool() { return pool_; }
  // The reports of the lanes.
  LaneNewsQueue& lane_news() { return lane_news_; }
  // Whether there is work for a worker that needs no core.
  bool has_errands() const { return errands_.size() > 0 || lane_news_.size() > 0; }
  // nullptr: there are no deadlines.
  TimerQueue* timers() { return timers_; }

  // Adds a long task and sets its deadline, unless it has already been added.
  LongTask& BeginLong(Run& run, uint32_t task);
  // Removes a task that has ended; returns nullptr if it was not a long task.
  std::unique_ptr<LongTask> EndLong(Run& run, uint32_t task);

  // `start_ns` + `timeout_ns`; 0 if there is no limit.
  int64_t DeadlineAfter(int64_t start_ns, int64_t timeout_ns) const;
  // Adds a wait of the run, with a deadline unless `at_ns` is 0. `long_task` is nullptr if the wait
  // is not in a long task.
  void BeginWait(Run& run, TaskWaiterLink& waiter, LongTask* long_task, int64_t at_ns);

  // Ends all waits of a run that was stopped.
  void CancelWaits(Run& run);

  // What does the calls of kernels on lanes. Before the first lane.
  void SetLaneCalls(std::unique_ptr<LaneCallHandler> calls) { lane_calls_ = std::move(calls); }
  // Needs timers.
  std::shared_ptr<LanePort> AddLane(std::shared_ptr<Lane> lane);
  // Cancels the posts of a run that was stopped; with `late_only`, those of its late tasks.
  void CancelPosts(const Run& run, bool late_only);
  // No post of the run is left, and none will come.
  void EndPosts(const Run& run);
  // Kills all lanes.
  void LoseLanes(absl::string_view what);

 private:
  // So many deadlines of one run are handled before those of other runs: some 100 us of work.
  static constexpr size_t kExpireAtOnce = 64;

  // Calls Expire for the run at its next deadline. `id` is the timer of the former one.
  TimerQueue::Id SetTimer(Run& run, TimerQueue::Id id, int64_t at_ns);
  // Ends the waits of the run whose deadlines have passed, and cancels the posts of late tasks.
  void Expire(Run& run);
  // Each lane of the run once.
  static void ForEachLane(const Run& run, absl::FunctionRef<void(LanePort&)> use);
  // Stops the runs of posts that have reached the limit. Returns when to look again; 0: no need.
  int64_t CheckLaneLimit();
  // The lanes that still exist.
  std::vector<std::shared_ptr<LanePort>> Lanes();

  Scheduler& scheduler_;
  TimerQueue* const timers_;
  const LaneLimits lane_limits_;
  WaitTable waits_;
  ErrandQueue errands_;
  LaneNewsQueue lane_news_;
  Mutex lanes_mutex_;
  std::vector<std::weak_ptr<LanePort>> lanes_ ABSL_GUARDED_BY(lanes_mutex_);
  BlockingPool pool_;
  std::unique_ptr<LaneCallHandler> lane_calls_;
  // Last, so that it is destroyed before the members that it uses.
  Alarm lane_limit_;
};

}  // namespace pto::engine

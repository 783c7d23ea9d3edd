#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/engine/snapshot/continuation.h"
#include "runtime/engine/snapshot/engine_now.h"
#include "runtime/engine/snapshot/situation.h"

namespace pto::engine {

// A task that has not notified a word yet, and what prevents it.
struct HeldSender {
  enum class Why {
    kItself,  // it has started and waits
    kTasks,   // a task before it waits
    kTurn,    // its run is behind another run
    kCores,   // other tasks hold the cores that it needs
  };
  TaskPlace sender;
  Why why = Why::kTasks;
  // The waiting task; for kTurn, one of the run that goes first. Empty if unknown.
  absl::optional<TaskPlace> by;
  size_t run = 0;  // for kTurn: the run that goes first
};

// Determines what can still happen in an engine snapshot, given the queued and running tasks and
// the deadlines: which runs can end, which tasks can start, which waits can hold. It ignores what
// clients may do, except that an open run may get more tasks.
//
// It tries all continuations: every set of tasks that run out of time, and every order in which
// runs reach their deadlines. If these are too many, it assumes that each task with a deadline can
// both fail and end in time, which never misses a possibility. When in doubt, something can happen.
// The EngineNow must outlive it. Not thread-safe.
class Blockage {
 public:
  explicit Blockage(const EngineNow& now);

  // Whether the run can end or, for an open run, its client can send tasks that may help.
  bool CanEnd(size_t run) const { return run_can_end_[run]; }
  // Whether this run lets the runs behind it begin, and whether it can begin itself.
  bool CanPass(size_t run) const { return run_can_pass_[run]; }
  bool CanBegin(size_t run) const { return run_can_begin_[run]; }
  // Of tasks.
  bool CanEnd(const TaskPlace& place) const { return can_end_[situation_.IndexOf(place)]; }
  bool CanStart(const TaskPlace& place) const { return can_start_[situation_.IndexOf(place)]; }
  // Whether all tasks before it can succeed.
  bool CanBeReady(const TaskPlace& place) const { return can_be_ready_[situation_.IndexOf(place)]; }
  bool CanNotify(const TaskPlace& place) const { return can_notify_[situation_.IndexOf(place)]; }
  // Whether a wait can hold, by its number in the Situation.
  bool CanHold(size_t wait) const { return can_hold_[wait]; }

  const Situation& situation() const { return situation_; }
  // The waiting or ready task that this task comes after; the task itself if it waits. Otherwise a
  // `wait` task that has not started and will wait forever.
  absl::optional<TaskPlace> WaitsFor(const TaskPlace& place) const;
  // What prevents a task that has not ended from notifying; empty if nothing does.
  absl::optional<HeldSender> HeldUp(const TaskPlace& sender) const;
  // A cycle of tasks that wait for each other and that contains or is reached from this task. Empty
  // if a wait on the way has no sender.
  std::vector<TaskPlace> CycleFrom(const TaskPlace& place) const;

 private:
  void Explore();
  // Continues from one point in every order of the runs' deadlines.
  void Follow(Continuation continuation);
  void Merge(const Continuation& continuation);
  void FindBlockers();
  // Marks these tasks as the blockers of all tasks behind them.
  void SpreadBlockers(std::vector<TaskPlace> seeds);
  // A waiting task that holds a core which the task needs; preferably one that cannot end.
  absl::optional<TaskPlace> KeepsCoresFrom(const TaskPlace& place) const;

  const EngineNow& now_;
  const Situation situation_;
  std::vector<bool> run_can_end_, run_can_pass_, run_can_begin_;
  std::vector<bool> can_end_, can_be_ready_, can_start_, can_notify_, can_hold_;
  // For each task, the task that it comes after; preferably one that cannot end.
  std::vector<uint64_t> blocker_;
};

}  // namespace pto::engine

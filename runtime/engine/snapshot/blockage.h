#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/engine/snapshot/continuation.h"
#include "runtime/engine/snapshot/engine_now.h"
#include "runtime/engine/snapshot/situation.h"

namespace pto {

// A task that would notify a word and has not started, and what keeps it from that.
struct HeldSender {
  enum class Why {
    kItself,  // it has started, and waits
    kTasks,   // a task before it waits
    kTurn,    // its run is behind another one
    kCores,   // other tasks keep the cores that it needs
  };
  TaskPlace sender;
  Why why = Why::kTasks;
  // The task that waits; of kTurn one of the run that goes first. None when it is not known.
  absl::optional<TaskPlace> by;
  size_t run = 0;  // of kTurn: the run that goes first
};

// What can still happen in an engine as it was seen, by what is queued or running in it and by
// deadlines: which runs can end, which tasks can start, which waits can hold. What clients may do
// is not considered, but for more tasks of an open run.
//
// Tries all continuations: every choice of the tasks that run out of time, and of the runs that are
// stopped by their deadlines, in every order. Where that would be too many, every task with a
// deadline is taken to be able to both fail and end in time, which is never too few. When in doubt
// something can happen. Lives as long as the EngineNow; not thread-safe.
class Blockage {
 public:
  explicit Blockage(const EngineNow& now);

  // Whether the run can end, or, of an open run, its client can send tasks that may help.
  bool CanEnd(size_t run) const { return run_can_end_[run]; }
  // Whether those can begin that are behind the run, as far as it is concerned; and whether it can
  // begin itself.
  bool CanPass(size_t run) const { return run_can_pass_[run]; }
  bool CanBegin(size_t run) const { return run_can_begin_[run]; }
  // Of tasks.
  bool CanEnd(const TaskPlace& place) const { return can_end_[situation_.IndexOf(place)]; }
  bool CanStart(const TaskPlace& place) const { return can_start_[situation_.IndexOf(place)]; }
  // Whether all that comes before it can end well.
  bool CanBeReady(const TaskPlace& place) const { return can_be_ready_[situation_.IndexOf(place)]; }
  bool CanNotify(const TaskPlace& place) const { return can_notify_[situation_.IndexOf(place)]; }
  // Of a wait, by its number in the situation: whether it can hold.
  bool CanHold(size_t wait) const { return can_hold_[wait]; }

  const Situation& situation() const { return situation_; }
  // The task that waits, or is ready, and that this one comes after; itself, when it waits. If
  // there is none, a `wait` task that has not started and will wait for what never comes.
  absl::optional<TaskPlace> WaitsFor(const TaskPlace& place) const;
  // What keeps a task that has not ended from notifying; none when nothing does.
  absl::optional<HeldSender> HeldUp(const TaskPlace& sender) const;
  // Tasks that wait for each other, each for the next and the last for the first, beginning with
  // or reached from this one. Empty when a wait on the way has no sender.
  std::vector<TaskPlace> CycleFrom(const TaskPlace& place) const;

 private:
  void Explore();
  // Goes on from one point in every order of the deadlines of runs.
  void Follow(Continuation continuation);
  void Merge(const Continuation& continuation);
  void FindBlockers();
  // Says of the tasks, and of all that come after them, that they wait for these.
  void SpreadBlockers(std::vector<TaskPlace> seeds);
  // A task that waits and keeps a core of a chip that the task needs; one that cannot end, if there
  // is any.
  absl::optional<TaskPlace> KeepsCoresFrom(const TaskPlace& place) const;

  const EngineNow& now_;
  const Situation situation_;
  std::vector<bool> run_can_end_, run_can_pass_, run_can_begin_;
  std::vector<bool> can_end_, can_be_ready_, can_start_, can_notify_, can_hold_;
  // By task: the one that it comes after, which cannot end if there is such a one.
  std::vector<uint64_t> blocker_;
};

}  // namespace pto

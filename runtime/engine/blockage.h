#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "runtime/engine/engine_now.h"

namespace pto {

// A task of a run, by the run's place in EngineNow.
struct TaskPlace {
  size_t run = 0;
  uint32_t task = 0;
  // Of one that could notify: that is what it is there for, and exactly this word.
  bool exact = false;
  bool operator==(const TaskPlace& other) const { return run == other.run && task == other.task; }
};

// Which of the waits of an engine nothing can end that is queued or running in it.
//
// At first all tasks that wait are taken to be stuck. A task is not, if each of its waits can be
// ended by one that can still act: one that runs or can get a core, or one that follows only tasks
// that are not stuck; this is repeated until nothing changes. Who could change a word: tasks that
// notify exactly this word, and tasks whose kernels have a tensor in the same memory, as kernels
// may notify what they can reach. What has ended cannot.
//
// When in doubt a task is not stuck: while a run moves, every task of it that does not follow a
// stuck one is taken to be still able to act; nor is one whose word compares as it should already,
// since somebody may just be about to tell it. What a client may do is not considered. Lives as
// long as the EngineNow; not thread-safe.
class Blockage {
 public:
  explicit Blockage(const EngineNow& now);

  // Of a task that waits.
  bool IsStuck(const TaskPlace& place) const;
  // Whether a task of the run is stuck, or the run waits for one of which that holds.
  bool HasStuck(size_t run) const { return has_stuck_[run]; }
  // The task that waits and that this one comes after, if there is one; itself, when it waits.
  absl::optional<uint32_t> WaitsFor(size_t run, uint32_t task) const;

  // The slot of the run that has the word; nullptr when none has.
  const SlotNow* SlotOf(size_t run, const WaitNote& note) const;
  // Tasks that could change the word, those that have ended too. None for words in no slot.
  const std::vector<TaskPlace>& Senders(const WaitNote& note) const;
  // Whether a task could still do what it is there for.
  bool CanAct(const TaskPlace& place) const;
  // Of a part of an open run: whether one of the session's open runs can act, so that there may be
  // room for more tasks some time.
  bool OpenRunsCanAct(size_t run) const;
  // Tasks that wait for each other, each for the next and the last for the first, beginning with
  // or reached from this one. Empty when a wait on the way has no sender.
  // Where there are tasks whose purpose is to send, others are not considered.
  std::vector<TaskPlace> CycleFrom(const TaskPlace& place) const;

  // Cores of a kind that stuck tasks do not keep; with PTO_MIX whole clusters.
  uint32_t Available(uint32_t chip, pto_core kind) const {
    return available_[chip][static_cast<size_t>(kind)];
  }

 private:
  static constexpr uint32_t kNothing = 0xffffffff;

  void FindSenders();
  void FindSendersIn(size_t run);
  // Takes from the budget; false when nothing is left.
  bool Spend(uint64_t steps);
  bool CapacityFor(size_t run, uint32_t task) const;
  // Whether something of the run that is ready can get a core.
  bool CanGetCores(size_t run) const;
  bool CanEnd(size_t run, const WaitingTask& task);
  // What follows from who is stuck.
  void Spread();
  void SpreadCores();
  void SpreadTurns();
  void SpreadOpenRuns();
  // For each task, a task of `seeds` that it comes after, or kNothing.
  std::vector<uint32_t> Closure(size_t run, const std::vector<uint32_t>& seeds) const;
  // What keeps a task that could send from it.
  absl::optional<TaskPlace> HeldUpBy(const TaskPlace& sender) const;
  const WaitingTask* Find(const TaskPlace& place) const;

  const EngineNow& now_;
  absl::flat_hash_map<const void*, std::vector<TaskPlace>> senders_;
  std::vector<std::vector<bool>> stuck_;         // by run and place in RunNow::waiting
  std::vector<std::vector<uint32_t>> pending_;   // by run and task: see WaitsFor; empty: nothing
  std::vector<std::vector<uint32_t>> hopeless_;  // the same for stuck tasks only
  std::vector<bool> has_stuck_;
  std::vector<bool> can_begin_;
  std::vector<bool> open_acts_;                     // of runs that are parts of an open one
  std::vector<std::array<uint32_t, 4>> available_;  // by chip and pto_core
  std::vector<bool> gets_cores_;                    // whether CanGetCores
  uint64_t budget_;  // of steps; when it is used up nothing more is taken to be stuck
};

}  // namespace pto

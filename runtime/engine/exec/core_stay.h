#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/engine/exec/pulse.h"
#include "runtime/engine/exec/released.h"
#include "runtime/engine/queue/scheduler.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/engine/run/completions.h"
#include "runtime/engine/run/run.h"
#include "runtime/engine/run/task_recorder.h"

namespace pto::engine {

class JointTask;

// What one thread runs now: the run, the core it stays on, the tasks that come next there, and the
// counts and records that the run does not know yet. A worker owns one and passes it to its lanes.
//
// Counts and records reach the run in batches (Flush), always before other threads can see that a
// successor is ready. Not thread-safe.
//
// All that the plain loop reads for each task is in this one object: its address stays in a
// register.
struct CoreStay {
  // One of so many short tasks is measured, to learn the pace of its kernel and for the records of
  // all. A power of two.
  static constexpr uint32_t kMeasureOneOf = 32;

  // `completions` may be nullptr while the worker runs nothing.
  CoreStay(Scheduler& scheduler, Completions* completions, Pulse* pulse = nullptr)
      : scheduler(scheduler), completions(completions), pulse(pulse) {}
  CoreStay(const CoreStay&) = delete;
  CoreStay& operator=(const CoreStay&) = delete;

  // For a task that is begun or ended without a core.
  static BlockTicket Nowhere(Run& run, uint32_t task);

  // ---- begin and end
  // Starts to run the ticket's blocks, or to end its task. Resets the counters.
  void Begin(const BlockTicket& next);
  // After the last task on the core. The run may be gone when this returns.
  void End();
  void LeaveCore();
  // Counts the ticket's abandoned blocks as ended. The run may be gone when this returns.
  void Abandon();
  void MarkStarted();

  // ---- signs of life
  // The thread goes on, with the same blocks or others.
  void Beat() const {
    if (pulse != nullptr) pulse->Beat();
  }
  // It looks for something else to do.
  void Move() const {
    if (pulse != nullptr) pulse->Move();
  }
  // It begins or resumes calls for blocks of this ticket, which has its core.
  void ShowPlace(const BlockTicket& place) const;

  // ---- questions
  // Whether no other thread can reach the run's tasks until this one gives some away.
  bool IsAlone() const;
  bool IsForThisCore(const ImageTask& task) const {
    return task.block_num == 1 && task.chip == chip &&
           task.core == static_cast<uint8_t>(ticket.kind) && task.plain();
  }
  // Whether a gang waits for the core.
  bool GangWaits() const { return queue->GangWaits(ticket.run->priority(), ticket.kind); }

  // ---- counts and records
  // A plain task begins: decides whether to measure it.
  void BeginTask(uint32_t task);
  // A plain task of one call that was measured has ended well.
  void NotePlain(uint32_t task);
  // A plain task whose call has returned goes on without it.
  void NoteDeferred(uint32_t task);
  // Any other task has ended. Learns how long it took, and records it.
  void NoteEnd(uint32_t task, bool failed, int64_t start_ns, int64_t deferred_ns);
  // A kernel of a task has returned that may still have conditions. Before the task is counted.
  void NoteReturn(Run& run, uint32_t task) const;
  void AddRecord(uint32_t task, uint32_t core, TaskOutcome outcome,
                 const TaskRecorder::Stretch& stretch);
  // Tells the run what it does not know yet.
  void Flush();
  // Queues ready tasks of the run, which nothing has counted yet.
  void Push(absl::Span<const uint32_t> tasks);
  // Removes one count that keeps the run from ending. The run may be gone when this returns.
  void Drop(Run& run) const { Scheduler::Drop(run, *completions); }
  // After another run may have ended here: the turn ends before the next task, so that the end
  // does not have to wait until this run has no more tasks for this core.
  void EndTurnIfRunsEnded() {
    if (!completions->empty()) count = UINT32_MAX - 1;
  }

  Scheduler& scheduler;

  BlockTicket ticket;
  uint32_t chip = 0;
  const ReadyQueue* queue = nullptr;          // of that chip
  uint32_t count = 0;                         // tasks since the last check whether others wait
  bool timed = false;                         // all tasks are recorded
  bool measured = false;                      // this task is: it began at `begin_ticks`
  uint32_t measure_mask = kMeasureOneOf - 1;  // the next task is measured if count & mask is 0
  bool was_long = false;                      // the last measured task
  bool alone = false;                         // IsAlone, as of the last check
  uint64_t begin_ticks = 0;
  uint64_t last_ticks = 0;          // end of the last recorded task
  uint64_t typical_ticks = 0;       // duration of recently measured tasks
  uint64_t done = 0;                // not told yet
  uint64_t ended = 0;               // not told yet
  JointTask* next_joint = nullptr;  // has its cores; runs when there is no other work here
  Released released;

  bool crowded = false;         // others waited at the last check
  bool left_core = false;       // since this thread last looked for a task
  int64_t until_ns = 0;         // when to stop; 0: when there is no work
  int64_t holds = 0;            // what the caller holds of the run's `outstanding`
  std::vector<uint32_t> group;  // scratch for Scheduler::Push

  TaskRecorder recorder;  // large, so it comes after what is used more often

  // Where the runs go that end here. Drained by the worker, or by its caller, when nothing of a run
  // is on the stack.
  Completions* completions;
  // nullptr: nobody watches the thread.
  Pulse* const pulse;

 private:
  // The mask for tasks of that duration.
  static uint32_t MeasureMask(uint64_t ticks);
  void LearnPace(uint32_t task, uint64_t took);
};

}  // namespace pto::engine

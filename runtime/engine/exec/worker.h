#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/engine/exec/block_runner.h"
#include "runtime/engine/exec/core_stay.h"
#include "runtime/engine/exec/fiber_lane.h"
#include "runtime/engine/exec/joint_task.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/queue/scheduler.h"

namespace pto {

// Runs blocks on one thread.
//
// What it takes from the queues comes with a core, and the worker stays on that core: tasks that
// become ready for the same kind of core of the same chip are kept here and run next, without a
// lock and with warm caches (worker_plain.cc). Of such tasks it gives away what others could run:
// when somebody sleeps and they are worth waking it, and when another run waits for its turn.
//
// Tasks that are more than calls of plain kernels take the slow lane (worker_slow.cc): fibers,
// which this worker alone goes on with, threads of their own, and errands.
//
// What is known of the tasks it ran (counts, records) reaches the run in portions; always before
// others can see that one of their successors is ready (CoreStay). Not thread-safe.
class Worker {
 public:
  // Without a lane for them it never begins fibers. Executors have a number each, so that each can
  // do again what it did before where several share a task.
  explicit Worker(Services& services, FiberLane* lane = nullptr, uint32_t number = 0)
      : services_(services),
        scheduler_(services.scheduler()),
        lane_(lane),
        number_(number),
        stay_(scheduler_) {}
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Takes something of any run, at most `max` blocks, and runs it and what follows on its core; or
  // goes on with a fiber, or does an errand. Returns false when there is nothing.
  bool RunAny(uint32_t max) {
    const bool found = RunNext(max);
    RunJoints();
    return found;
  }
  // The same, with as many blocks at once as their length advises.
  bool RunAny() { return RunAny(std::min(batch_, MaxBatch())); }

  // Runs what is ready of one run until there is nothing, or `until_ns`.
  void HelpWith(Run& run, int64_t until_ns);
  // Starts a run by working on it: its roots, which nothing has counted or queued yet.
  void BeginWith(Run& run, int64_t until_ns);
  // Takes all of a stopped run out of the queues.
  void Clear(Run& run);
  // Makes the roots of a run ready. As BeginTasks.
  void BeginRoots(Run& run, bool taking_one);
  // Makes tasks ready that wait for nothing any more, of a run that somebody keeps from ending.
  // See Scheduler::Push. Not while it runs something else.
  void BeginTasks(Run& run, absl::Span<const uint32_t> tasks, bool taking_one);

  // ---- one thing at a time, for those who choose themselves
  bool RunBlockOf(uint32_t chip);
  bool RunFiber(size_t place = 0);
  bool RunErrand(size_t place = 0);

  // ---- for errands
  // Does a task that works in phases, alone or with others, and those that follow from it.
  void RunJoint(JointTask& joint);
  // Makes calls of one that others have begun, as one of them has asked.
  void HelpJoint(JointTask& joint, JointHelp& help);
  // Does a task that needs no core.
  void BeginControl(Run& run, uint32_t task);
  // Ends a task that has no core, after its last condition.
  void EndDetached(Run& run, uint32_t task);

 private:
  // How many short tasks are run before others get their turn.
  static constexpr uint32_t kTurn = 64;
  // How many are taken at once while nobody else waits for a turn.
  static constexpr uint32_t kMaxBatch = 512;

  // No more than will be run before others get their turn.
  uint32_t MaxBatch() const { return stay_.crowded ? kTurn : kMaxBatch; }
  bool RunNext(uint32_t max);
  bool TakeFiber(size_t place);
  bool TakeErrand(size_t place);
  // Wakes somebody for tasks that wait, when this one is about to do something else.
  void PassOn() {
    if (scheduler_.parking().has_sleepers() && scheduler_.ready() > 0) {
      scheduler_.parking().Wake(1);
    }
  }
  // Runs the ticket's blocks, then `released.local` and what joins it.
  void Execute(const BlockTicket& ticket);
  // Returns whether the ticket's task has ended by these blocks, which the run may not outlive
  // otherwise.
  bool RunBlocks();
  // Runs the tasks in `released.local` on the ticket's core, after another one, until none is left
  // here.
  void RunLocal();
  // The same, and at least one of them. There is one.
  void RunPlain();
  uint32_t PopLocal() {
    const uint32_t task = stay_.released.local.back();
    stay_.released.local.pop_back();
    return task;
  }
  struct PlainGraph;
  // A plain task of one call has ended well. Returns the one to run next, if it made any ready.
  uint32_t ReleasePlain(const PlainGraph& graph, uint32_t task);
  // A plain task whose only call has ended, and that may go on without it.
  void EndDeferred(absl::Status error);
  void EndTask(uint32_t task, bool failed, int64_t start_ns, int64_t deferred_ns = 0);
  // The first half of it: counts the task, and tells its successors.
  void CountEnd(uint32_t task, bool failed, int64_t start_ns, int64_t deferred_ns = 0);
  // Tells a task's successors that it has ended, and theirs if they cannot run. Those that have
  // become ready are in `released.local`, `released.elsewhere` and `released.special`, for
  // SeeToReleased.
  void Release(uint32_t task, bool failed);
  void Tell(uint32_t ended, bool failed);
  // Puts a task where it belongs that waits for nothing any more.
  void SortOut(uint32_t task, MetDependencies::State state);
  void SkipPoisoned();
  void SeeToReleased();
  // Queues what has become ready for other cores.
  void PushElsewhere();
  // Tells tasks of other runs what they waited for.
  void ReleaseLinked();
  // Gives the tasks at the bottom of `released.local`, up to place `count`, to the queue.
  void GiveAway(size_t count);
  void ShareSurplus();
  // Whether the next task must not follow at once. Counts the one before.
  bool TurnEnds() {
    return (++stay_.count >= kTurn || stay_.was_long || stay_.GangWaits()) && CheckTurn();
  }
  bool CheckTurn();
  // Whether others wait for the core or the thread; asked after a few short tasks or a long one.
  bool ShouldYield();

  // ---- the slow lane
  // Sees to the tasks in `released.special`, which have become ready, and to those that follow
  // them.
  void SortSpecial();
  void PassOver(uint32_t task);
  void ExecuteSlow();
  // What its deadline and its barriers are kept in; nullptr when it has none.
  LongTask* BeginLong(const BlockTicket& ticket);
  // For a block of the task that comes to no barrier any more.
  static void BreakBarriers(Services& services, LongTask& long_task);
  static BlockEnd CallSlow(Services& services, const BlockTicket& ticket, BlockHost* host,
                           LongTask* long_task, absl::Status* error);
  void RunOnFiber();
  void GoOn(FiberBlock& block);
  void RunOnThread(const BlockTicket& ticket);
  // One call has ended. With `stay` what follows is run on its core.
  void EndCall(const BlockTicket& ticket, BlockEnd end, absl::Status error, int64_t start_ns,
               bool stay);
  void EndSlow(uint32_t task, bool failed, int64_t start_ns);
  absl::Status Control(Run& run, uint32_t task);

  // ---- tasks in phases (worker_joint.cc)
  // Sees to a ready task, unless its cores are not free: takes them, or lets it follow another one
  // that was begun here. Until PublishJoints nobody else knows of it.
  bool BeginJoint(uint32_t task);
  // Takes the cores for a task. Returns nullptr when they are not free, or others wait for them.
  JointTask* TakeJoint(uint32_t task);
  void PublishJoints();
  // Does those that are kept here, and those that follow them.
  void RunJoints() {
    while (stay_.next_joint != nullptr) RunJoint(*std::exchange(stay_.next_joint, nullptr));
  }
  // Does one task, and sees to what follows. The caller keeps the run from ending. Returns whether
  // another task follows on the same cores, which is `stay_.next_joint` then.
  bool DoJoint(JointTask& joint);
  // Does a large one with others, who may end it.
  void ShareJoint(JointTask& joint);
  // Makes calls until there is none left to make.
  void Drive(JointTask& joint);
  void AskForHelp(JointTask& joint);
  // After a task that was shared: the next one of a chain comes at once, and to fall asleep and be
  // woken for it takes longer than most of them.
  void AwaitMore();
  // Takes back what was asked and nobody has come for, when there is nothing left to do.
  void TakeBackHelp(JointTask& joint);
  void EndJoint(JointTask& joint, bool failed, int64_t start_ns);
  // The same for one that only this worker knows. Returns as DoJoint does.
  bool EndOwnJoint(JointTask& joint);
  // Lets a task that has become ready, or a follower, have the cores of one that has ended, if
  // there is such a task and nobody else waits for them.
  bool HandOn(JointTask& joint);
  // Lets those see who look without locks what has its cores and what follows. On one core for all
  // of them, that of its first block, in this queue: it is done for each of many short ones in a
  // row.
  static void ShowJoint(const JointTask& joint, const ReadyQueue& queue);
  void ReleaseCores(const JointTask& joint);
  // Queues what waits for the task's cores.
  void GiveFollowers(JointTask& joint);
  // Lets others have half of the followers, if they sleep and there are cores.
  void ShareFollowers(JointTask& joint);
  // The next one of the same run, if it is here and nobody else has to be let go first.
  JointTask* NextJoint(const Run& run, uint32_t done);
  JointTask* NewJoint(Run& run, uint32_t task);
  void LeaveJoint(JointTask& joint);

  Services& services_;
  Scheduler& scheduler_;
  FiberLane* const lane_;
  const uint32_t number_;
  uint32_t turn_ = 0;  // which kind of work is looked for first
  uint32_t next_chip_ = 0;
  uint32_t batch_ = 1;
  CoreStay stay_;  // what it runs now

  std::vector<JointTask*> begun_joints_;
  size_t next_leader_ = 0;  // of these, for the next follower
  std::vector<JointTask*> spare_joints_;
};

}  // namespace pto

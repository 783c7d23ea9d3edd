#pragma once

#include <cstdint>

#include "runtime/engine/exec/core_stay.h"
#include "runtime/engine/exec/fiber_pool.h"
#include "runtime/engine/exec/joint_starter.h"
#include "runtime/engine/exec/joint_task.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/exec/task_flow.h"

namespace pto::engine {

// Runs tasks whose kernels work in phases: small ones alone, large ones together with other
// threads. The next task of a chain gets the cores of the one before. Belongs to one worker. Not
// thread-safe.
class JointLoop {
 public:
  // `fibers` is nullptr for a worker that is not an executor. Executors differ in their number, so
  // that each makes the same calls again where several share a task.
  JointLoop(Services& services, JointStarter& starter, TaskFlow& flow, const FiberPool* fibers,
            uint32_t number)
      : services_(services),
        scheduler_(services.scheduler()),
        starter_(starter),
        flow_(flow),
        fibers_(fibers),
        number_(number) {}

  // Runs a task that has its cores, alone or with others, and the tasks that follow from it.
  void RunJoint(CoreStay& stay, JointTask& joint);
  // Makes calls of a task that another thread has begun, and for which it has asked for help.
  void HelpJoint(CoreStay& stay, JointTask& joint, JointHelp& help);

 private:
  // Runs one task and dispatches its successors. The caller holds the run. Returns whether another
  // task follows on the same cores; it is `stay.next_joint`.
  bool RunOne(CoreStay& stay, JointTask& joint);
  // Runs a large task together with other threads, which may end it.
  void Share(CoreStay& stay, JointTask& joint);
  // Makes calls until none is left.
  void Drive(CoreStay& stay, JointTask& joint);
  void AskForHelp(JointTask& joint);
  // Takes back the requests for help that nobody has taken, when no call is left.
  void TakeBackHelp(CoreStay& stay, JointTask& joint);
  // Completes the runs that have ended, then spins a while after a shared task: the next one of a
  // chain comes soon, and to sleep and be woken takes longer than most of them.
  void AwaitMore(const CoreStay& stay);
  void End(CoreStay& stay, JointTask& joint, bool failed, int64_t start_ns);
  // The same for a task that only this thread knows. Returns as RunOne does.
  bool EndOwn(CoreStay& stay, JointTask& joint);
  // Gives the cores of an ended task to a successor or a follower, if there is one and no other
  // task waits for them.
  bool HandOn(CoreStay& stay, JointTask& joint);
  void ReleaseCores(CoreStay& stay, const JointTask& joint);
  // Queues the tasks that wait for the cores of this one.
  void GiveFollowers(CoreStay& stay, JointTask& joint);
  // Gives half of the followers to another thread, if there are cores for them.
  void ShareFollowers(CoreStay& stay, JointTask& joint);
  // The next task of the same run, if there is one here and it is not the turn of others.
  JointTask* Next(CoreStay& stay, const Run& run, uint32_t done);

  Services& services_;
  Scheduler& scheduler_;
  JointStarter& starter_;
  TaskFlow& flow_;
  const FiberPool* const fibers_;
  const uint32_t number_;
};

}  // namespace pto::engine

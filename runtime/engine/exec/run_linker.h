#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/engine/exec/services.h"
#include "runtime/engine/run/run.h"

namespace pto {

// Lets tasks of one run wait for tasks of another: the segments of an open graph are runs of
// their own. Each link is one more dependency of the task that waits, and keeps its run from
// ending. Thread-safe.
class RunLinker {
 public:
  explicit RunLinker(Services& services) : services_(services), scheduler_(services.scheduler()) {}

  // Others may wait for the run's tasks, and they for others'. Before it is accepted.
  static void Open(Run& run);
  // A task of a run that is open and not accepted yet waits for a task of another run, ended or
  // not. When that one fails, this one is skipped. In order of the tasks that wait.
  static void Link(const std::shared_ptr<Run>& run, uint32_t task, Run& before,
                   uint32_t before_task);
  // The roots that wait for nothing else.
  static std::vector<uint32_t> FreeRoots(const Run& run);
  // The run begins, as far as its other roots are concerned.
  void BeginHeld(const std::shared_ptr<Run>& run);

  // A task has ended: those that wait for it go on, or are skipped.
  void Release(Run& run, uint32_t task, bool failed);
  // The run ends before all its tasks did.
  void ReleaseRest(Run& run);

 private:
  // One dependency less. It keeps the run from ending until it is done.
  struct Step {
    std::shared_ptr<Run> run;
    uint32_t task;
    bool failed;
  };
  void Do(std::vector<Step> steps);
  void DoOne(const Step& step, std::vector<Step>* more);
  void Skip(Run& run, uint32_t task, std::vector<Step>* more);

  Services& services_;
  Scheduler& scheduler_;
};

}  // namespace pto

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/engine/exec/services.h"
#include "runtime/engine/run/completions.h"
#include "runtime/engine/run/run.h"

namespace pto::engine {

// Lets tasks of one run wait for tasks of another: the segments of an open graph are runs of
// their own. Each link is one more dependency of the task that waits, and keeps its run from
// ending. As cheap to make as to keep; the static functions are thread-safe, the others use the
// completion queue of their thread.
class RunLinker {
 public:
  // Runs that end by a link go to `completions`.
  RunLinker(Services& services, Completions& completions)
      : services_(services), scheduler_(services.scheduler()), completions_(completions) {}

  // Other runs may wait for tasks of this run, and it for theirs. Before it is accepted.
  static void Open(Run& run);
  // A task of a run that is open and not accepted yet waits for a task of another run, ended or
  // not. When that one fails, this one is skipped. In order of the tasks that wait.
  static void Link(const std::shared_ptr<Run>& run, uint32_t task, Run& before,
                   uint32_t before_task);
  // The roots that wait for nothing else.
  static std::vector<uint32_t> FreeRoots(const Run& run);
  // Begins the other roots, those that wait for nothing any more.
  void BeginHeld(const std::shared_ptr<Run>& run);

  // A task has ended: the tasks of other runs that wait for it become ready, or are skipped.
  void Release(Run& run, uint32_t task, bool failed);
  // The same for all tasks that have never run, when the run ends.
  void ReleaseRest(Run& run);

 private:
  // One dependency less of a task. Keeps the run of that task from ending until it is done.
  struct Step {
    std::shared_ptr<Run> run;
    uint32_t task;
    bool failed;
  };
  using Steps = std::vector<Step>;

  // Adds a step for each task that waits for this one, which has ended.
  static void AddSteps(Run& run, uint32_t task, bool failed, Steps* steps);
  // Does the steps and those that follow from them, one after the other: a chain of tasks that end
  // without having run needs no deep stack.
  void Do(Steps steps);
  void DoOne(const Step& step, Steps* more);
  void Skip(Run& run, uint32_t task, Steps* more);

  Services& services_;
  Scheduler& scheduler_;
  Completions& completions_;
};

}  // namespace pto::engine

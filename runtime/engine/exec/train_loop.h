#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/engine/exec/core_stay.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/exec/slow_loop.h"
#include "runtime/engine/exec/task_flow.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/lane/post_table.h"

namespace pto::engine {

// Runs short tasks of kernels that belong to a lane in trains: one post has many of them, which the
// lane runs one after the other on one core. So the costs of a post are shared by all its tasks,
// and a chain of tasks goes to the lane before its first task has ended. When a train has ended,
// the tasks that it made ready form the next one on the same core.
//
// What is no train goes through SlowLoop: a task alone, because nothing else is ready, or because
// its kernel takes long, or has never run. Belongs to one worker. Not thread-safe.
class TrainLoop {
 public:
  TrainLoop(Services& services, TaskFlow& flow, SlowLoop& slow)
      : services_(services), scheduler_(services.scheduler()), flow_(flow), slow_(slow) {}

  // Posts the ticket's task and the local tasks of the stay, all of which are Run::IsLanePlain and
  // belong to one lane; or leaves the one task to SlowLoop, which collects it.
  void Begin(CoreStay& stay);
  // The lane has ended a train, or was lost.
  void End(CoreStay& stay, PostSlot& slot);
  // A task that was posted alone has ended.
  static void LearnAlone(const Kernel& kernel, uint64_t took_ticks);
  // A train goes on as a post of one of its tasks.
  void EndPart(CoreStay& stay, const TrainPart& part);

 private:
  // Posts the local tasks, or leaves the core if there are none.
  void GoOn(CoreStay& stay);
  // Moves local tasks to `tasks_`, and adds tasks that depend on them alone.
  void Form(CoreStay& stay, const LanePort& lane);
  // A task that can follow the given one in its train, which it waits for as its last; kNoTask:
  // there is none.
  static uint32_t FindNext(const CoreStay& stay, uint32_t task);
  // The first `done` of the tasks have ended well. The next one has failed, if that is so. Those
  // behind were not begun: they become local again.
  void Settle(CoreStay& stay, absl::Span<const TrainTask> tasks, size_t done, bool failed,
              uint64_t began_ticks);
  // The tasks have ended well, and took so long together.
  static void Learn(const Run& run, absl::Span<const TrainTask> tasks, uint64_t took_ticks);
  void Release(CoreStay& stay, absl::Span<const TrainTask> tasks, size_t at, size_t ended);

  Services& services_;
  Scheduler& scheduler_;
  TaskFlow& flow_;
  SlowLoop& slow_;
  // Of the train that is formed, and of the one that ends.
  std::vector<TrainTask> tasks_;
  std::vector<TrainTask> ended_;
};

}  // namespace pto::engine

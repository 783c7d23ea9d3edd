#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "runtime/engine/exec/core_stay.h"
#include "runtime/engine/exec/fiber_pool.h"
#include "runtime/engine/exec/kernel_call.h"
#include "runtime/engine/exec/plain_loop.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/exec/task_flow.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/lane/post_table.h"

namespace pto::engine {

// Runs tasks that are more than calls of plain kernels: blocks that wait, on fibers; blocks that
// block, on threads of their own; blocks of kernels that belong to a lane, by posting them there;
// tasks with a deadline; and control tasks, which need no core. Belongs to one worker. Not
// thread-safe.
class SlowLoop {
 public:
  // Without a fiber pool it must not get blocks that wait.
  SlowLoop(Services& services, TaskFlow& flow, PlainLoop& plain, FiberPool* fibers)
      : services_(services),
        scheduler_(services.scheduler()),
        flow_(flow),
        plain_(plain),
        fibers_(fibers) {}

  // Runs the block of the stay's ticket, or passes it to a thread, or collects it for its lane:
  // see Post. Blocks that wait, and posted ones, keep their core.
  void ExecuteSlow(CoreStay& stay);
  // How many blocks are collected, and to post them: one call for each lane. Before this thread
  // does anything else.
  size_t collected() const { return outgoing_.size(); }
  void Post(CoreStay& stay);
  // The lane that got the last post; nullptr: it is gone.
  std::shared_ptr<LanePort> last_lane() const { return last_lane_.lock(); }
  // The lane has ended a post, or was lost.
  void EndPost(CoreStay& stay, PostSlot& slot);
  // Starts or resumes a block on its fiber.
  void GoOn(CoreStay& stay, FiberBlock& block);
  // Runs a block on this thread, which may block.
  void RunOnThread(CoreStay& stay, const BlockTicket& ticket);

  // Runs a task that needs no core.
  void BeginControl(CoreStay& stay, Run& run, uint32_t task);
  // Ends a task that has no core, after its last condition.
  void EndDetached(CoreStay& stay, Run& run, uint32_t task);

 private:
  void RunOnFiber(CoreStay& stay);
  // The deadline and the barriers of a task; nullptr when it has none.
  LongTask* BeginLong(const BlockTicket& ticket);
  // One call has ended. With `keeps_core` the tasks that follow run on its core.
  void EndCall(CoreStay& stay, const BlockTicket& ticket, BlockEnd end, absl::Status error,
               int64_t start_ns, bool keeps_core);
  absl::Status Control(CoreStay& stay, Run& run, uint32_t task);
  // Ends what a block has deferred the end of its task by.
  void EndConditions(const BlockTicket& ticket, LongTask* long_task);
  // Ends a block that its lane was not given.
  void EndRefused(CoreStay& stay, const LanePort::Outgoing& block);
  // Shows whether the block on a core runs on a lane.
  void ShowPosted(const BlockTicket& ticket, bool posted);

  Services& services_;
  Scheduler& scheduler_;
  TaskFlow& flow_;
  PlainLoop& plain_;
  FiberPool* const fibers_;
  std::vector<LanePort::Outgoing> outgoing_;
  std::vector<LanePort::Outgoing> batch_;  // for one lane
  std::vector<LanePort::Outgoing> refused_;
  std::weak_ptr<LanePort> last_lane_;
};

}  // namespace pto::engine

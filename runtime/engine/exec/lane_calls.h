#pragma once

#include <memory>

#include "runtime/engine/exec/async_copy.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/lane/lane.h"
#include "runtime/engine/lane/lane_call_handler.h"
#include "runtime/engine/lane/post_table.h"

namespace pto::engine {

// Does what kernels on lanes ask for, as KernelApi does for those that the engine calls itself. But
// these kernels are not trusted: a call may have any content. Whether a kernel says that it waits
// does not matter here, because it has no thread of the engine. Thread-safe.
class LaneCalls final : public LaneCallHandler {
 public:
  explicit LaneCalls(Services& services) : services_(services) {}

  void Handle(PostSlot& slot, const LaneCall& call) override;
  void EndWait(Waiter& waiter) override;

 private:
  // Each handles one call: answers it, or begins a wait that does.
  void Wait(PostSlot& slot, const LaneCall& call, LaneAnswer answer);
  void Notify(PostSlot& slot, const LaneCall& call, LaneAnswer answer);
  void Meet(PostSlot& slot, const LaneCall& call, LaneAnswer answer);
  void Copy(PostSlot& slot, const LaneCall& call, LaneAnswer answer);
  void WaitCopy(PostSlot& slot, const LaneCall& call, LaneAnswer answer);
  void Defer(PostSlot& slot, const LaneCall& call, LaneAnswer answer);
  void DeferCopy(PostSlot& slot, const LaneCall& call, LaneAnswer answer);
  // Makes the task end no sooner than the signal compares so.
  void AddCondition(PostSlot& slot, const LaneCall& call, LaneAnswer answer,
                    const SignalWord& signal, pto_compare compare, int64_t value,
                    std::shared_ptr<AsyncCopy> copy);

  Services& services_;
};

}  // namespace pto::engine

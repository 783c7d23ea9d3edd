#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "runtime/engine/exec/task_waiter.h"
#include "runtime/engine/lane/lane.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/lane/post_table.h"
#include "runtime/engine/signal/barrier.h"

namespace pto::engine {

// The wait of a kernel that runs on a lane, which learns of the end by the answer to its call. Owns
// itself.
class LaneWaiter final : public TaskWaiter {
 public:
  // Handles a call of the post that waits for a signal, or for a copy that has one.
  static void Begin(Services& services, PostSlot& slot, const LaneAnswer& answer,
                    const SignalWord& signal, pto_compare compare, int64_t value,
                    std::shared_ptr<AsyncCopy> copy, int64_t timeout_ns);
  // The same for a call that has come to a barrier first.
  static void Begin(Services& services, PostSlot& slot, const LaneAnswer& answer, Barrier& barrier,
                    int64_t meeting);

  // Ends a call: answers it.
  static void Answer(PostSlot& slot, const LaneAnswer& answer);

 private:
  LaneWaiter(Services& services, PostSlot& slot, const LaneAnswer& answer, const SignalWord& signal,
             pto_compare compare, int64_t value, std::shared_ptr<AsyncCopy> copy);
  void Start(int64_t timeout_ns);
  bool OnBegin() override;
  void OnDone(WaitEnd end) override;
  WaitNote::Kind kind() const override { return WaitNote::Kind::kBlock; }
  // What the kernel is told. Notes in the post why, if it did not succeed.
  void Finish(WaitEnd end);
  absl::Status BarrierTimedOut() const;
  // Shows whether the block waits or runs.
  void ShowWait(uint32_t wait);

  PostSlot& slot_;
  LaneAnswer answer_;
  Barrier* barrier_ = nullptr;
  int64_t meeting_ = 0;
};

}  // namespace pto::engine

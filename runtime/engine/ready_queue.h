#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/core_map.h"
#include "runtime/engine/flow.h"
#include "runtime/engine/run.h"

namespace pto {

// One block of a task, with the core that it holds.
struct BlockTicket {
  Run* run = nullptr;
  uint32_t task = 0;
  uint32_t block = 0;
  int32_t core = -1;
  pto_core kind = PTO_AIV;
  // Blocks that a stopped run never starts; they count as ended together with this one.
  uint32_t abandoned = 0;
};

// The ready tasks of one chip and its cores. Runs take turns, so that a large one does not keep
// the others waiting. Thread-safe.
class ReadyQueue {
 public:
  explicit ReadyQueue(uint32_t clusters) : cores_(clusters) {}

  // Adds ready tasks of a run, all for this chip.
  void Push(Run& run, uint32_t chip, absl::Span<const uint32_t> tasks);

  // Takes the next block for which there is a core; of `only` when that is given. A block of a
  // stopped run comes without a core, with all blocks of its task that had not started.
  bool Take(Run* only, uint32_t chip, BlockTicket* ticket);

  // Takes a core for a task that never waited in the queue, unless others wait for such a core.
  bool TakeCore(pto_core kind, int32_t* core);
  void ReleaseCore(pto_core kind, int32_t core);

  // Tasks that wait. Exact only under no change.
  uint32_t ready() const { return ready_.load(std::memory_order_acquire); }
  uint32_t busy_cores() const;

 private:
  static constexpr pto_core kKinds[] = {PTO_MIX, PTO_AIC, PTO_AIV};

  bool TakeFrom(Flow& flow, pto_core kind, BlockTicket* ticket)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PopHead(Flow& flow, pto_core kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FlowRing& ring(pto_core kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return rings_[static_cast<size_t>(kind) - 1];
  }

  mutable Mutex mutex_;
  CoreMap cores_ ABSL_GUARDED_BY(mutex_);
  std::array<FlowRing, 3> rings_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint32_t> ready_{0};
};

}  // namespace pto

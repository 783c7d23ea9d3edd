#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/core_map.h"
#include "runtime/engine/flow.h"
#include "runtime/engine/run.h"

namespace pto {

// Blocks of a task, with the core on which they run one after the other.
struct BlockTicket {
  Run* run = nullptr;
  uint32_t task = 0;
  uint32_t block = 0;
  uint32_t block_end = 1;
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

  // Takes the next block for which there is a core; of `only` when that is given. Up to `max`
  // blocks of that task come along, or that many tasks of one block and of the same run and kind
  // in `more`, in order: all for the same core. A block of a stopped run comes without a core,
  // with all blocks of its task that had not started.
  bool Take(Run* only, uint32_t chip, uint32_t max, BlockTicket* ticket,
            std::vector<uint32_t>* more);

  // Takes a core for a task that never waited in the queue, unless others wait for such a core.
  bool TakeCore(pto_core kind, int32_t* core);
  void ReleaseCore(pto_core kind, int32_t core);

  // Whether tasks of other runs wait.
  bool OthersWait(const Run& run) const;

  // Tasks that wait. Exact only under no change.
  uint32_t ready() const { return ready_.load(std::memory_order_acquire); }
  uint32_t busy_cores() const;

 private:
  static constexpr pto_core kKinds[] = {PTO_MIX, PTO_AIC, PTO_AIV};

  bool TakeFrom(Flow& flow, pto_core kind, uint32_t max, BlockTicket* ticket,
                std::vector<uint32_t>* more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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

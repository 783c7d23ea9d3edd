#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/chip/core_set.h"
#include "runtime/engine/queue/core_view.h"

namespace pto::engine {

// The blocks of one chip that hold their cores for so long that a reservation does not wait for
// them, and the time after which a reservation decides this (its patience).
//
// A reservation keeps cores idle while it collects the others. That pays only if the blocks on the
// others end soon. A block is a long hold when it waits for a signal itself, or when it has not
// ended within a reservation's patience. It remains one until it ends.
//
// Not thread-safe: guarded by the lock of the chip's ReadyQueue.
class LongHolds {
 public:
  // `views` belong to the cores of the chip and must outlive this object.
  LongHolds(uint32_t clusters, absl::Span<const CoreView> views)
      : clusters_(clusters), views_(views), old_(3 * clusters), long_(3 * clusters) {}

  // A reservation starts or stops collecting. Durations of blocks are measured while one collects.
  void BeginWatch(int64_t now_ns);
  void EndWatch() { --watches_; }
  // Notes which blocks have cores now, or clears the notes.
  void NoteOld();
  void ForgetOld() { old_.Clear(); }
  // Reduces the weight of past durations.
  void Decay() { longest_ns_ -= longest_ns_ / 8; }

  // Turns the noted blocks that wait, or all noted blocks, into long holds.
  void MarkWaiting();
  void MarkAll();
  // Turns the blocks that use a part of the cluster into long holds.
  void MarkCluster(uint32_t cluster);

  // A block takes or releases a core or a cluster.
  void OnTake(int32_t core, int64_t now_ns) { taken_ns_[static_cast<uint32_t>(core)] = now_ns; }
  // Returns whether the block was a long hold.
  bool OnRelease(pto_core kind, int32_t core, int64_t now_ns);
  // Whether OnTake and OnRelease must be called.
  bool active() const { return watches_ > 0 || long_count_ > 0; }

  // Whether enough cores or clusters are free of long holds.
  bool LeavesRoomFor(pto_core kind, uint32_t blocks) const;
  bool HasPartOf(uint32_t cluster) const;
  // Whether a waiting block has a part of the cluster.
  bool WaitsIn(uint32_t cluster) const;

  // How long a reservation collects: a few times the longest recent duration of a block. The
  // minimum is short enough that idle cores do no harm and long enough for most blocks to end.
  int64_t patience_ns() const;
  static constexpr int64_t kLeastPatienceNs = 10'000'000;

 private:
  struct Parts {
    uint32_t core[3];
    uint32_t count;
  };
  Parts PartsOf(pto_core kind, uint32_t core) const;
  void Mark(uint32_t core);
  bool IsHeld(uint32_t core) const {
    return views_[core].run.load(std::memory_order_relaxed) != nullptr;
  }

  const uint32_t clusters_;
  const absl::Span<const CoreView> views_;
  uint32_t watches_ = 0;
  CoreSet old_;   // noted and held since; a cluster by its cube core
  CoreSet long_;  // single cores of long holds
  uint32_t long_count_ = 0;
  std::vector<int64_t> taken_ns_ = std::vector<int64_t>(3 * size_t{clusters_});
  int64_t longest_ns_ = 0;  // longest recent time on a core, without blocks that waited
};

}  // namespace pto::engine

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/chip/core_set.h"
#include "runtime/engine/queue/core_view.h"

namespace pto {

// The blocks of one chip that hold their cores for so long that a reservation does not wait for
// them, and how long a reservation waits before it finds that out.
//
// A reservation keeps cores idle while it collects the others, which pays only if the blocks that
// hold them end soon. A block is a long hold when it waits for something itself, or when it has
// not ended within a reservation's patience. It stays one until it ends.
//
// Not thread-safe: guarded by the lock of the chip's ReadyQueue.
class LongHolds {
 public:
  // `views` are those of the chip's cores, and must outlive this.
  LongHolds(uint32_t clusters, absl::Span<const CoreView> views)
      : clusters_(clusters), views_(views), old_(3 * clusters), long_(3 * clusters) {}

  // A reservation begins or ends to collect. While one does, it is seen how long blocks take.
  void BeginWatch(int64_t now_ns);
  void EndWatch() { --watches_; }
  // Remembers which blocks have cores now, or forgets that.
  void NoteOld();
  void ForgetOld() { old_.Clear(); }
  // What is known of the past counts less from now on.
  void Decay() { longest_ns_ -= longest_ns_ / 8; }

  // Makes those of the noted blocks long holds that wait, or all that are left.
  void MarkWaiting();
  void MarkAll();
  // Makes the blocks that have parts of a cluster long holds.
  void MarkCluster(uint32_t cluster);

  // A block gets a core or a cluster, or gives it back.
  void OnTake(int32_t core, int64_t now_ns) { taken_ns_[static_cast<uint32_t>(core)] = now_ns; }
  // Returns whether the block was a long hold.
  bool OnRelease(pto_core kind, int32_t core, int64_t now_ns);
  // Whether OnTake and OnRelease have to be called.
  bool active() const { return watches_ > 0 || long_count_ > 0; }

  // Whether a reservation can count on so many cores or clusters.
  bool LeavesRoomFor(pto_core kind, uint32_t blocks) const;
  bool HasPartOf(uint32_t cluster) const;
  // Whether a block that waits has part of a cluster.
  bool WaitsIn(uint32_t cluster) const;

  // How long a reservation waits: a few times as long as blocks take here, but not less than what
  // is short enough for idle cores to do no harm and long enough for most blocks to end.
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
  CoreSet old_;   // noted, and held since; a cluster by its cube core
  CoreSet long_;  // single cores of long holds
  uint32_t long_count_ = 0;
  std::vector<int64_t> taken_ns_ = std::vector<int64_t>(3 * size_t{clusters_});
  int64_t longest_ns_ = 0;  // for which a block had its core, of late, without waiting
};

}  // namespace pto

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/core_map.h"
#include "runtime/engine/block_ticket.h"
#include "runtime/engine/core_view.h"
#include "runtime/engine/reservation.h"
#include "runtime/engine/run.h"
#include "runtime/engine/share_table.h"

namespace pto {

// The ready tasks of one chip and its cores.
//
// Tasks of a higher class go first. Within a class accounts share the chip by their weights, and
// the runs of an account take turns, so that a large one does not keep the others waiting.
//
// One gang at a time, which GangBook chooses, reserves cores here as they fall free. Tasks of a
// higher class go before it, and get back what it has so far. Tasks of its own class go before it
// as often as the chip has cores if they waited already when the last gang was placed here; so
// neither gangs nor other tasks can keep each other waiting for ever. Thread-safe.
class ReadyQueue {
 public:
  ReadyQueue(uint32_t chip, uint32_t clusters, const Clock& clock, PlacementTrace* trace = nullptr);

  // Adds ready tasks of a run, all for this chip and none of them a gang.
  void Push(Run& run, absl::Span<const uint32_t> tasks);

  // Adds all roots of a run whose tasks are alike (GraphImage::alike), for this chip.
  void PushRoots(Run& run);

  // Takes the next block for which there is a core; of `only` when that is given, and then none
  // that needs a fiber, since whoever asks for one run may be gone before it ends. First those of
  // gangs that were placed and of clusters that were begun. Of plain tasks up to `max` blocks come
  // along, or that many tasks of one block and of the same run and kind in `more`, in order: all
  // for the same core. A block of a stopped run comes without a core, with all blocks of its task
  // that had not started.
  bool Take(Run* only, uint32_t max, BlockTicket* ticket, std::vector<uint32_t>* more);

  // Takes a core for a task that never waited in the queue, unless others wait for such a core.
  bool TakeCore(Run& run, pto_core kind, int32_t* core);
  // A cluster is free when this was called for each of the block's lanes.
  void ReleaseCore(pto_core kind, int32_t core);

  // The number of the cluster that a core belongs to, or that is given by its own number.
  int32_t ClusterOf(int32_t core) const { return core < clusters_ ? core : (core - clusters_) / 2; }

  // Whether tasks of other runs wait that do not have to give way to those of `run`.
  bool OthersWait(const Run& run) const;
  // Whether a gang waits here for a core of this kind, or for what it is part of, and tasks of
  // this class must not keep it waiting.
  bool GangWaits(Priority priority, pto_core kind) const {
    const uint32_t wanted = wanted_.load(std::memory_order_relaxed);
    if (wanted == 0) return false;
    return (wanted & KindBit(kind)) != 0 && static_cast<uint32_t>(priority) <= wanted >> 3;
  }

  // Takes cores for the blocks of a member of a gang, if nobody else waits for them. All or none.
  bool TakeCores(Run& run, pto_core kind, uint32_t member, uint32_t blocks,
                 std::vector<BlockPlace>* places);

  // ---- for GangBook
  // Lets a gang reserve cores; nullptr: none. What another one has reserved is given back. Returns
  // whether it has all at once. The reservation must live until it is replaced or published.
  bool SetReservation(Reservation* reservation);
  bool ReservationComplete() const;
  // Gives the blocks of the complete reservation their cores, and then, when that is done on all
  // chips of the gang, makes them ready. Publish returns how many calls of kernels that are.
  void Prepare();
  uint32_t Publish();
  // The same as Prepare, for a task whose cores somebody keeps together: says which they are.
  std::vector<int32_t> Assign();
  // Whether a reservation has become complete since the last time this was asked.
  bool TakeNews() {
    return news_.load(std::memory_order_relaxed) &&
           news_.exchange(false, std::memory_order_acq_rel);
  }

  // Tasks that wait for a thread or a core, and blocks that wait for a thread. Exact only under no
  // change.
  uint32_t ready() const { return ready_.load(std::memory_order_acquire); }

  // Returns as soon as its lock is free: tells who waits whether a thread has stopped with it.
  void AwaitLock() const { MutexLock lock(mutex_); }

  // ---- for readers without the lock, who are to see something also when that is never let go
  // Cores that blocks have; what a gang has reserved is not busy.
  uint32_t busy_cores() const;
  uint32_t core_count() const { return static_cast<uint32_t>(core_views_.size()); }
  const CoreView& core_view(uint32_t core) const { return core_views_[core]; }
  const ReservationView& reservation_view() const { return reservation_view_; }
  // Of a core that the caller has; a cluster's is that of its cube core.
  CoreView& own_view(int32_t core) const { return core_views_[static_cast<uint32_t>(core)]; }

 private:
  static constexpr uint32_t KindBit(pto_core kind) { return 1u << static_cast<uint32_t>(kind) % 3; }
  // Kinds that cannot have a core while a gang of this kind has it.
  static constexpr uint32_t Overlapping(pto_core kind) {
    return kind == PTO_MIX ? 7 : KindBit(PTO_MIX) | KindBit(kind);
  }

  bool TakePlaced(const Run* only, BlockTicket* ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeFrom(Flow& flow, Line line, uint32_t max, BlockTicket* ticket,
                std::vector<uint32_t>* more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PopFirst(Flow& flow, Line line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int32_t AcquireFor(Line line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes tickets for the lanes of a block that has a cluster, from lane `first` on.
  void AddLanes(BlockTicket ticket, uint32_t first, std::deque<BlockTicket>* tickets)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the gang take what it may.
  void Collect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool OthersGoFirst() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountTurn(Line line, uint32_t blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Says what the reservation has, for readers without the lock.
  void ShowReservation() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t chip_;
  const int32_t clusters_;
  PlacementTrace* const trace_;
  mutable std::vector<CoreView> core_views_;
  ReservationView reservation_view_;

  mutable Mutex mutex_;
  CoreMap cores_ ABSL_GUARDED_BY(mutex_);
  ShareTable shares_ ABSL_GUARDED_BY(mutex_);
  Reservation* reservation_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // How many blocks of each line may still go before a gang of their class.
  std::array<uint32_t, kLineCount> owed_ ABSL_GUARDED_BY(mutex_) = {};
  std::deque<BlockTicket> prepared_ ABSL_GUARDED_BY(mutex_);
  std::deque<BlockTicket> placed_ ABSL_GUARDED_BY(mutex_);
  // Lanes of each cluster that have not ended; 0: it is held as a whole.
  std::vector<uint8_t> lanes_left_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint32_t> ready_{0};
  // What the gang waits for: its overlapping kinds, and its class above them. Workers look at it
  // after every task, so what changes more often stays away from it.
  alignas(64) std::atomic<uint32_t> wanted_{0};
  std::atomic<bool> news_{false};
};

}  // namespace pto

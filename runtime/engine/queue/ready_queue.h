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
#include "runtime/engine/queue/core_view.h"
#include "runtime/engine/queue/long_holds.h"
#include "runtime/engine/queue/reservation.h"
#include "runtime/engine/queue/share_table.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/engine/run/run.h"

namespace pto {

// The ready tasks of one chip and its cores.
//
// Tasks of a higher class go first. Within a class accounts share the chip by their weights, and
// the runs of an account take turns, so that a large one does not keep the others waiting.
//
// One gang at a time, which GangBook chooses, has the turn here. It collects cores as they fall
// free when GangBook tells it to, which is when the gang may do so on all its chips:
// - no task of a higher class waits for such cores;
// - its account has used no more of the chip than those whose tasks wait; of its own account, as
//   many blocks have gone first as the last gang had;
// - long holds (LongHolds) leave enough cores for it.
// Until then it holds nothing, so other tasks use all cores. While it collects, tasks of a higher
// class still take its cores, and it stops when its patience ends: what is in its way then counts
// as a long hold. So cores stand idle for a gang only for about as long as tasks take here, and a
// gang starts about that long after the last long hold in its way has ended.
//
// Tasks for clusters that are not gangs reserve them in the same way, part by part, while none is
// free: as many as such blocks wait, or one while tasks of their class wait for single cores.
//
// Thread-safe.
class ReadyQueue {
 public:
  ReadyQueue(uint32_t chip, uint32_t clusters, const Clock& clock, PlacementTrace* trace = nullptr);

  // Adds ready tasks of a run, all for this chip and none of them a gang.
  void Push(Run& run, absl::Span<const uint32_t> tasks);

  // Adds all roots of a run whose tasks are alike (GraphImage::alike), for this chip.
  void PushRoots(Run& run);

  // Takes the next block for which there is a core; of `only` when that is given, and then none
  // that needs a fiber, since a thread that asks for one run may be gone before it ends. In each
  // class first those of gangs that were placed and of clusters that were begun. Of plain tasks up
  // to `max` blocks come along, or that many tasks of one block and of the same run and kind in
  // `more`, in order: all for the same core. A block of a stopped run comes without a core, with
  // all blocks of its task that had not started. None of a class below `lowest`.
  bool Take(Run* only, Priority lowest, uint32_t max, BlockTicket* ticket,
            std::vector<uint32_t>* more);

  // Takes a core for a task that never waited in the queue, unless others wait for such a core.
  bool TakeCore(Run& run, pto_core kind, int32_t* core);
  // A cluster is free when this was called for each of the block's lanes.
  void ReleaseCore(pto_core kind, int32_t core);

  // The number of the cluster that a core belongs to, or that is given by its own number.
  int32_t ClusterOf(int32_t core) const { return core < clusters_ ? core : (core - clusters_) / 2; }

  // Whether tasks of other runs wait that do not have to give way to those of `run`.
  bool OthersWait(const Run& run) const;
  // Whether a gang collects cores of this kind, or what they are part of, and tasks of this class
  // must not keep it waiting.
  bool GangWaits(Priority priority, pto_core kind) const {
    const uint32_t wanted = wanted_.load(std::memory_order_relaxed);
    if (wanted == 0) return false;
    return (wanted & KindBit(kind)) != 0 && static_cast<uint32_t>(priority) <= wanted >> 3;
  }

  // Takes cores for the blocks of a member of a gang, if nobody else waits for them. All or none.
  // One thread makes the calls on all `members` chips.
  bool TakeCores(Run& run, pto_core kind, uint32_t member, uint32_t members, uint32_t blocks,
                 std::vector<BlockPlace>* places);

  // ---- for GangBook
  // Gives a gang the turn; nullptr: to none. The one before must have stopped collecting. The
  // reservation must live until it is replaced or published.
  void GiveTurn(Reservation* reservation);
  // Whether the gang may begin to collect. If not, news come when it may.
  bool MayCollect();
  // Begins to collect. With `first_try` blocks that wait are long holds at once.
  void BeginCollecting(bool first_try);
  enum class Gathering { kStopped, kCollecting, kComplete };
  Gathering gathering() const;
  // Gives back what it has. Returns whether that was anything.
  bool StopCollecting();
  // Keeps what it has, if that is all it needs, until it is published or released.
  bool Fix();
  void Unfix();
  // Gives the blocks of a fixed reservation their cores, and then, when that is done on all chips
  // of the gang, makes them ready. Publish returns how many calls of kernels that are.
  void Prepare();
  uint32_t Publish();
  // The same as Prepare, for a task whose cores somebody keeps together: says which they are.
  std::vector<int32_t> Assign();
  // Whether long holds leave so many cores.
  bool LeavesRoomFor(pto_core kind, uint32_t blocks) const;

  // What has happened, as bits, since this was asked last. Asked after each call but those above.
  enum News : uint32_t {
    kGangNews = 1,      // the gang may collect, has all, or has stopped collecting
    kCoresFreed = 2,    // a reservation has given back cores that others may wait for
    kLongHoldEnded = 4  // there may be room for gangs that had none
  };
  uint32_t TakeNews() {
    if (news_.load(std::memory_order_relaxed) == 0) return 0;
    return news_.exchange(0, std::memory_order_acq_rel);
  }

  // Whether there is a reservation that has not all it needs: its patience has to be checked.
  bool reserving() const { return reserving_.load(std::memory_order_seq_cst); }
  // Ends the patience of reservations whose time is up. Returns when the next one's is; 0: never.
  int64_t CheckPatience();

  // Tasks that wait for a thread or a core, and blocks that wait for a thread. Exact only under no
  // change.
  uint32_t ready() const { return ready_.load(std::memory_order_acquire); }
  // Whether there are any of this class.
  bool HasReady(Priority priority) const {
    return (classes_.load(std::memory_order_relaxed) & ClassBit(ClassOf(priority))) != 0;
  }

  // Whether something waits here for nothing but a thread: it has a core, or there is a free one.
  bool WaitsForThread() const;

  // Returns as soon as its lock is free: tells who waits whether a thread has stopped with it.
  void AwaitLock() const { MutexLock lock(mutex_); }

  // ---- for readers without the lock, who are to see something also when that is never let go
  // Cores that blocks have; what is reserved is not busy.
  uint32_t busy_cores() const;
  uint32_t core_count() const { return static_cast<uint32_t>(core_views_.size()); }
  const CoreView& core_view(uint32_t core) const { return core_views_[core]; }
  const ReservationView& reservation_view() const { return reservation_view_; }
  // Of a core that the caller has; a cluster's is that of its cube core.
  CoreView& own_view(int32_t core) const { return core_views_[static_cast<uint32_t>(core)]; }

 private:
  static constexpr uint32_t KindBit(pto_core kind) { return 1u << static_cast<uint32_t>(kind) % 3; }
  static constexpr uint32_t ClassBit(uint32_t c) { return 1u << c; }
  // Kinds that cannot have a core while a gang of this kind has it.
  static constexpr uint32_t Overlapping(pto_core kind) {
    return kind == PTO_MIX ? 7 : KindBit(PTO_MIX) | KindBit(kind);
  }

  // The next block of one class, or the next task of one line.
  bool TakePlaced(const Run* only, size_t placed_class, BlockTicket* ticket)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeLine(Run* only, Line line, uint32_t max, BlockTicket* ticket,
                std::vector<uint32_t>* more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeNext(Run* only, Priority lowest, uint32_t max, BlockTicket* ticket,
                std::vector<uint32_t>* more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeFrom(Flow& flow, Line line, uint32_t max, BlockTicket* ticket,
                std::vector<uint32_t>* more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PopFirst(Flow& flow, Line line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int32_t AcquireFor(Line line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes tickets for the lanes of a block that has a cluster, from lane `first` on.
  void AddLanes(BlockTicket ticket, uint32_t first, std::deque<BlockTicket>* tickets)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountTurn(Line line, uint32_t blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says which classes wait, for readers without the lock.
  void ShowClasses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether tasks of the line can have a core at all, as long holds leave some.
  bool HasRoom(Line line) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return KindOf(line) != PTO_MIX || holds_.LeavesRoomFor(PTO_MIX, 1);
  }

  // ---- reservations (ready_queue_reserve.cc)
  // After each change: lets the gang and the cluster take what they may.
  void Review() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (gang_.reservation != nullptr) ReviewGang();
    if (clusters_wanted_) CollectClusters();
  }
  void ReviewGang() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool GangMayCollect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether tasks of its class wait that go first.
  bool OthersGoFirst() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StopGang() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, and tells GangBook and those who wait for the cores.
  void RevokeGang() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the gang keeps cores that it could give back.
  bool GangHolds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return gang_.state == Gang::kCollects || gang_.state == Gang::kComplete;
  }
  // Lets go of cores that a gang collects in vain. Returns whether there were any.
  bool GiveUpInVain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There is no cluster for a task of this line: begins to reserve some, if it may.
  void WantClusters(Line line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many are reserved at a time.
  size_t WantedClusters() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CollectClusters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The best one to reserve of which a part is free; -1 when there is none.
  int32_t ChooseCluster() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives back a cluster that was collected for the line, for it to take. False: there is none.
  bool YieldCluster(Line line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether cores of this kind, or all of a cluster, are among those reserved.
  bool AnyReserved(pto_core kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropClusters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddNews(uint32_t news) { news_.fetch_or(news, std::memory_order_acq_rel); }
  // Says what the reservations have, for readers without the lock.
  void ShowReservations() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The gang that has the turn here.
  struct Gang {
    enum State { kStopped, kCollects, kComplete, kFixed };
    Reservation* reservation = nullptr;  // nullptr: none
    Share* share = nullptr;
    State state = kStopped;
    bool share_turn = false;  // its account's turn has come, which it keeps until it is placed
    bool told = false;        // news have come that it may collect
    bool first_try = false;
    int64_t since_ns = 0;  // when it began to collect
  };
  // A cluster that is reserved for tasks that are no gangs.
  struct ReservedCluster {
    uint32_t cluster = 0;
    uint32_t parts = 0;
    int64_t since_ns = 0;
    bool complete() const { return parts == CoreMap::kWholeCluster; }
  };

  const uint32_t chip_;
  const int32_t clusters_;
  PlacementTrace* const trace_;
  mutable std::vector<CoreView> core_views_;
  ReservationView reservation_view_;

  mutable Mutex mutex_;
  const Clock& clock_;
  CoreMap cores_ ABSL_GUARDED_BY(mutex_);
  ShareTable shares_ ABSL_GUARDED_BY(mutex_);
  LongHolds holds_ ABSL_GUARDED_BY(mutex_);
  Gang gang_ ABSL_GUARDED_BY(mutex_);
  // Clusters are reserved for tasks of this line.
  bool clusters_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  Line cluster_line_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t clusters_since_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // none of them has had a free part
  std::vector<ReservedCluster> reserved_clusters_ ABSL_GUARDED_BY(mutex_);
  // Blocks of tasks for clusters that wait, by class.
  std::array<uint64_t, kClassCount> cluster_blocks_ ABSL_GUARDED_BY(mutex_) = {};
  // How many blocks of each line go before the next gang of their account.
  std::array<uint32_t, kLineCount> owed_ ABSL_GUARDED_BY(mutex_) = {};
  std::deque<BlockTicket> prepared_ ABSL_GUARDED_BY(mutex_);
  // Those of gangs and clusters, by class: the highest first.
  std::array<std::deque<BlockTicket>, kClassCount> placed_ ABSL_GUARDED_BY(mutex_);
  uint32_t placed_count_ ABSL_GUARDED_BY(mutex_) = 0;
  // Lanes of each cluster that have not ended; 0: it is held as a whole.
  std::vector<uint8_t> lanes_left_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint32_t> ready_{0};
  std::atomic<uint32_t> classes_{0};
  // What the gang collects: its overlapping kinds, and its class above them. Workers look at it
  // after every task, so what changes more often stays away from it.
  alignas(64) std::atomic<uint32_t> wanted_{0};
  std::atomic<uint32_t> news_{0};
  std::atomic<bool> reserving_{false};
};

}  // namespace pto

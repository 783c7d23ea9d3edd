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

namespace pto::engine {

// The ready tasks of one chip, and its cores.
//
// Tasks of a higher class go first. Within a class, accounts share the chip by their weights, and
// the runs of an account take turns, so that a large run does not delay the others.
//
// One gang at a time, which GangBook chooses, has the turn here. GangBook tells it to collect free
// cores once it may do so on all its chips:
// - no task of a higher class waits for such cores;
// - its account has used no more of the chip than the accounts whose tasks wait, and as many blocks
//   of its own account have gone first as the last gang had;
// - long holds (LongHolds) leave enough cores for it.
// Until then it holds nothing, so other tasks use all cores. While it collects, tasks of a higher
// class still take its cores. It stops when its patience expires: the blocks in its way then count
// as long holds. So cores are idle for a gang only for about as long as tasks take here, and a gang
// starts about that long after the last long hold in its way has ended.
//
// Tasks for clusters that are not gangs reserve clusters in the same way, part by part, while none
// is free: as many as such blocks wait, or one while tasks of their class wait for single cores.
//
// Thread-safe.
class ReadyQueue {
 public:
  ReadyQueue(uint32_t chip, uint32_t clusters, const Clock& clock, PlacementTrace* trace = nullptr);

  // Adds ready tasks of a run. All are for this chip and none is a gang.
  void Push(Run& run, absl::Span<const uint32_t> tasks);

  // Adds all roots of a run whose tasks are alike (GraphImage::alike) and for this chip.
  void PushRoots(Run& run);

  // Takes the next block that can have a core, of a class not below `lowest`. In each class, blocks
  // of placed gangs and of started clusters come first. With `only`: of that run, and no task that
  // needs a fiber, because a thread that helps one run may be gone before the fiber ends. Of a
  // plain task, up to `max` blocks are taken together; or, in `more`, up to that many tasks of one
  // block each of the same run and kind, in order, all for the same core. A task of a stopped run
  // comes without a core, with all its blocks that have not started.
  bool Take(Run* only, Priority lowest, uint32_t max, BlockTicket* ticket,
            std::vector<uint32_t>* more);

  // Takes a core for a task that was not queued, unless queued tasks wait for this kind of core.
  bool TakeCore(Run& run, pto_core kind, int32_t* core);
  // Must be called for each lane of a block that has a cluster; the last call frees the cluster.
  void ReleaseCore(pto_core kind, int32_t core);

  // The cluster of a core. Clusters have the numbers of their cube cores.
  int32_t ClusterOf(int32_t core) const { return core < clusters_ ? core : (core - clusters_) / 2; }

  // Whether tasks of the same or a higher class wait that belong to other runs. Placed blocks count
  // also if they belong to `run`.
  bool OthersWait(const Run& run) const;
  // Whether tasks wait that belong to none of the accounts, which hold cores for long: their time
  // counts now. Without `patient`, false while another thread has the lock.
  bool OthersWaitThan(absl::Span<const Account* const> accounts, bool patient);
  // As ShareTable::SettleCoreTime, unless another thread has the lock for long.
  void SettleCoreTime();
  // Whether a gang of the same or a higher class collects cores of this kind, or clusters with
  // them.
  bool GangWaits(Priority priority, pto_core kind) const {
    const uint32_t wanted = wanted_.load(std::memory_order_relaxed);
    if (wanted == 0) return false;
    return (wanted & KindBit(kind)) != 0 && static_cast<uint32_t>(priority) <= wanted >> 3;
  }

  // Takes cores for all blocks of a member of a gang, or none. Fails if any task is queued here or
  // a gang has the turn. One thread runs the blocks of all `members` chips.
  bool TakeCores(Run& run, pto_core kind, uint32_t member, uint32_t members, uint32_t blocks,
                 std::vector<BlockPlace>* places);

  // ---- for GangBook
  // Gives a gang the turn, or nobody if nullptr. The previous gang stops collecting. The
  // reservation must live until it is replaced or published.
  void GiveTurn(Reservation* reservation);
  // Whether the gang may start collecting. If not, kGangNews follows when it may.
  bool MayCollect();
  // Starts collecting. With `first_try`, blocks that wait count as long holds at once.
  void BeginCollecting(bool first_try);
  enum class Gathering { kStopped, kCollecting, kComplete };
  Gathering gathering() const;
  // Releases its cores. Returns whether it had any.
  bool StopCollecting();
  // Makes a complete reservation irrevocable until it is published or unfixed. False: not complete.
  bool Fix();
  void Unfix();
  // Prepare assigns the cores of a fixed reservation to its blocks. When all chips of the gang have
  // done so, Publish makes the blocks ready and returns how many calls of kernels that are. With
  // `taken` it appends them there instead: they have begun.
  void Prepare();
  uint32_t Publish(std::vector<BlockTicket>* taken = nullptr);
  // Like Prepare, for a joint task: returns the cores instead of preparing blocks.
  std::vector<int32_t> Assign();
  // Whether enough cores are free of long holds.
  bool LeavesRoomFor(pto_core kind, uint32_t blocks) const;

  // What has happened since the last call, as bits. The caller must ask after each call of a
  // method that is not for GangBook.
  enum News : uint32_t {
    kGangNews = 1,      // the gang may collect, is complete, or has stopped
    kCoresFreed = 2,    // a reservation has released cores that others may wait for
    kLongHoldEnded = 4  // blocked gangs may have room now
  };
  uint32_t TakeNews() {
    if (news_.load(std::memory_order_relaxed) == 0) return 0;
    return news_.exchange(0, std::memory_order_acq_rel);
  }

  // Whether a reservation is incomplete, so that CheckPatience must be called.
  bool reserving() const { return reserving_.load(std::memory_order_seq_cst); }
  // Ends reservations whose patience has expired. Returns when to call again; 0: no need.
  int64_t CheckPatience();

  // The number of tasks that wait for a thread or a core and of blocks that wait for a thread. May
  // be out of date at once.
  uint32_t ready() const { return ready_.load(std::memory_order_acquire); }
  // Whether there are any of this class.
  bool HasReady(Priority priority) const {
    return (classes_.load(std::memory_order_relaxed) & ClassBit(ClassOf(priority))) != 0;
  }

  // Whether something here needs only a thread: it has a core, or a core is free.
  bool WaitsForThread() const;

  // Returns as soon as the lock is free. Health checks use it to detect a thread stuck with the
  // lock.
  void AwaitLock() const { MutexLock lock(mutex_); }

  // ---- for readers without the lock, which work even if the lock is never released
  // Cores that blocks have. Reserved cores are not busy.
  uint32_t busy_cores() const;
  uint32_t core_count() const { return static_cast<uint32_t>(core_views_.size()); }
  const CoreView& core_view(uint32_t core) const { return core_views_[core]; }
  const ReservationView& reservation_view() const { return reservation_view_; }
  // The view of a core that the caller has; for a cluster, that of its cube core.
  CoreView& own_view(int32_t core) const { return core_views_[static_cast<uint32_t>(core)]; }

 private:
  static constexpr uint32_t KindBit(pto_core kind) { return 1u << static_cast<uint32_t>(kind) % 3; }
  static constexpr uint32_t ClassBit(uint32_t c) { return 1u << c; }
  // Kinds whose tasks cannot use a core while a gang of this kind has it.
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
  // Publishes which classes wait, for readers without the lock.
  void ShowClasses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether long holds leave a core that tasks of the line can use.
  bool HasRoom(Line line) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return KindOf(line) != PTO_MIX || holds_.LeavesRoomFor(PTO_MIX, 1);
  }

  // ---- reservations (ready_queue_reserve.cc)
  // Called after each change: lets the gang and the reserved clusters take free cores.
  void Review() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (gang_.reservation != nullptr) ReviewGang();
    if (clusters_wanted_) CollectClusters();
  }
  void ReviewGang() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool GangMayCollect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether waiting tasks of its class go first.
  bool OthersGoFirst() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StopGang() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stops the gang, and notifies GangBook and the tasks that wait for cores.
  void RevokeGang() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the gang has cores that it could release.
  bool GangHolds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return gang_.state == Gang::kCollects || gang_.state == Gang::kComplete;
  }
  // Stops a gang that long holds keep from completing. Returns whether it did.
  bool GiveUpInVain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called when a task of this line finds no cluster: starts to reserve some, if it may.
  void WantClusters(Line line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many clusters to reserve at a time.
  size_t WantedClusters() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CollectClusters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The best cluster to reserve that has a free part; -1: none.
  int32_t ChooseCluster() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Releases a cluster that is reserved for the line, for the caller to take. False: there is none.
  bool YieldCluster(Line line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether reserved parts include cores of this kind (for PTO_MIX: any part).
  bool AnyReserved(pto_core kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropClusters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddNews(uint32_t news) { news_.fetch_or(news, std::memory_order_acq_rel); }
  // Publishes the reservations, for readers without the lock.
  void ShowReservations() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The gang that has the turn here.
  struct Gang {
    enum State { kStopped, kCollects, kComplete, kFixed };
    Reservation* reservation = nullptr;  // nullptr: none
    Share* share = nullptr;
    State state = kStopped;
    bool share_turn = false;  // its account's turn has come; kept until it is placed
    bool told = false;        // kGangNews was sent that it may collect
    bool first_try = false;
    int64_t since_ns = 0;  // when it started to collect
  };
  // A cluster that is reserved for tasks that are not gangs.
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
  // The line of the tasks that clusters are reserved for.
  bool clusters_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  Line cluster_line_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t clusters_since_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // no cluster has had a free part since
  std::vector<ReservedCluster> reserved_clusters_ ABSL_GUARDED_BY(mutex_);
  // Waiting blocks of tasks for clusters, by class.
  std::array<uint64_t, kClassCount> cluster_blocks_ ABSL_GUARDED_BY(mutex_) = {};
  // The number of blocks of each line that go before the next gang of their account.
  std::array<uint32_t, kLineCount> owed_ ABSL_GUARDED_BY(mutex_) = {};
  std::deque<BlockTicket> prepared_ ABSL_GUARDED_BY(mutex_);
  // Ready blocks of gangs and clusters, which have cores, by class: the highest first.
  std::array<std::deque<BlockTicket>, kClassCount> placed_ ABSL_GUARDED_BY(mutex_);
  uint32_t placed_count_ ABSL_GUARDED_BY(mutex_) = 0;
  // Lanes of each cluster that have not ended; 0: the cluster is not split into lanes.
  std::vector<uint8_t> lanes_left_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint32_t> ready_{0};
  std::atomic<uint32_t> classes_{0};
  // The kinds that overlap with what the gang collects, and above them its class. Workers read it
  // after every task, so it has its own cache line.
  alignas(64) std::atomic<uint32_t> wanted_{0};
  std::atomic<uint32_t> news_{0};
  std::atomic<bool> reserving_{false};
};

}  // namespace pto::engine

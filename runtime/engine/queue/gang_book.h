#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/queue/ready_queue.h"
#include "runtime/engine/queue/reservation.h"
#include "runtime/engine/run/run.h"

namespace pto {

// The gangs that wait: tasks of which all blocks, on all their chips, start together.
//
// All gangs stand in one order, by class and then by a tag that a gang gets when it becomes ready
// and keeps. On each chip the first gang of this order that needs the chip has the turn. A gang
// that has the turn on all its chips, and may collect on all of them (ReadyQueue), collects cores
// as they fall free. When it has all its cores on all its chips it is placed: each block gets its
// core, then all of them are handed out.
//
// A gang is blocked while, on one of its chips, long holds leave too few cores for it. It keeps its
// place in the order, but has no turn and no cores: the gangs behind it, and other tasks, use the
// chips meanwhile.
//
// Why this ends well:
// - No deadlock. Gangs that are not blocked take no cores from each other: the first of them has
//   the turn on all its chips, so nobody else collects there. Cores that are busy fall free when
//   their blocks end, or their blocks become long holds. So that gang is placed or blocked, after a
//   bounded time, and then another one is the first.
// - No core stands idle for long: a gang collects on all its chips or on none, and only for as long
//   as its patience lasts.
// - No gang waits for ever behind gangs of its class. A new gang's tag is larger than that of the
//   gang that was placed last, by no less than a fixed step; so only finitely many get a smaller
//   tag than one that waits.
// - Gangs and other tasks of one class share the chips by the weights of their accounts.
// Once the long holds in its way have ended, the first gang of its class waits for the blocks that
// run then, and starts within a few times as long as the longest of them takes.
//
// Tags are those of weighted fair queueing: a gang's is its number of cores, divided by its
// account's weight and multiplied by the number of that account's runs which have gangs here,
// after the run's last one or after the last that was placed. So runs that have many gangs ready
// do not keep those waiting that have few.
//
// Thread-safe. Its lock is taken before those of the queues.
class GangBook {
 public:
  // Takes a gang that has all its cores, in place of its queues, when its kernel works in phases.
  using OnPhased = std::function<void(Run& run, uint32_t task, std::vector<BlockPlace> places)>;

  // `queues`: of all chips, by index. They must outlive the book.
  explicit GangBook(std::vector<ReadyQueue*> queues);
  // Before the first gang with such a kernel.
  void SetOnPhased(OnPhased on_phased) { on_phased_ = std::move(on_phased); }

  // These return how many threads could find something to do by it: calls of kernels that have
  // become ready, and tasks that wait on chips where cores have been given back.
  // Adds a ready gang.
  uint64_t Add(Run& run, uint32_t task);
  // Looks at a chip that has news for its gang. `long_hold_ended`: or for those that are blocked.
  uint64_t Advance(uint32_t chip, bool long_hold_ended);

  // Takes a gang of this run out, unless none waits. What it had reserved is free after this.
  bool Remove(const Run& run, uint32_t* task, uint64_t* ready);

  // Gangs that wait on a chip; exact only under no change.
  uint32_t waiting(uint32_t chip) const {
    return chips_[chip].count.load(std::memory_order_relaxed);
  }
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }

 private:
  struct Gang {
    struct Member {
      uint32_t chip = 0;
      Reservation reservation;
    };
    Run* run = nullptr;
    uint32_t task = 0;
    double tag = 0;
    uint64_t number = 0;
    bool blocked = false;
    bool collects = false;
    bool tried = false;  // has collected before
    std::vector<Member> members;
    std::list<Gang>::iterator self;
  };
  struct Before {
    bool operator()(const Gang* a, const Gang* b) const;
  };
  using GangSet = std::set<Gang*, Before>;
  struct ChipGangs {
    GangSet waiting;  // but for those that are blocked
    GangSet blocked;
    Gang* turn = nullptr;  // the first of those that wait, once it has been told
    std::atomic<uint32_t> count{0};
  };
  struct RunGangs {
    std::list<Gang> gangs;
    double last_tag = 0;
  };

  // The tag of a new gang.
  double NextTag(RunGangs& of_run, const Run& run, uint64_t cores)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chips to look at next.
  using Chips = std::vector<uint32_t>;
  // Gives turns and places gangs until nothing changes, beginning with these chips. Returns as Add.
  uint64_t Settle(Chips chips) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the turn on a chip to the first gang that waits there. Returns as Add.
  uint64_t GiveTurn(uint32_t chip) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a gang as far as it can go now. Adds the chips on which others may have the turn then.
  uint64_t Try(Gang& gang, Chips* chips) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins to collect, if that may be on all its chips.
  bool Begin(Gang& gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives back all that it has. Returns as Add.
  uint64_t Stop(Gang& gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes sure that it keeps its cores on all its chips.
  bool Fix(const Gang& gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Place(Gang& gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasTurns(const Gang& gang) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom(const Gang& gang) const;
  // Puts it among those that wait, or those that are blocked.
  void SetBlocked(Gang& gang, bool blocked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void AddChips(const Gang& gang, Chips* chips);
  static Gang::Member& MemberOn(Gang& gang, uint32_t chip);
  // Takes a gang out of the order and returns it. It may still have turns, which Settle ends.
  std::list<Gang> TakeOut(Gang& gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Its cores, chip by chip.
  std::vector<BlockPlace> PlacesOf(const Gang& gang);

  const std::vector<ReadyQueue*> queues_;
  OnPhased on_phased_;
  Mutex mutex_;
  std::vector<ChipGangs> chips_;
  absl::flat_hash_map<const Run*, RunGangs> runs_ ABSL_GUARDED_BY(mutex_);
  // How many runs of each account have gangs here.
  absl::flat_hash_map<const Account*, uint32_t> accounts_ ABSL_GUARDED_BY(mutex_);
  // Tag of the gang that was placed last, of each class.
  std::array<double, 3> placed_tag_ ABSL_GUARDED_BY(mutex_) = {};
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> count_{0};
};

}  // namespace pto

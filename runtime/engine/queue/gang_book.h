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

namespace pto::engine {

// The gangs that wait for cores. A gang is a task whose blocks, on all its chips, start together.
//
// All gangs have one order: by class, then by a tag that a gang gets when it becomes ready and
// keeps. On each chip, the first gang in this order that needs the chip has the turn. A gang that
// has the turn on all its chips, and may collect on all of them (ReadyQueue), collects cores as
// they become free. When it has all its cores on all its chips it is placed: each block gets its
// core, then all blocks become ready.
//
// A gang is blocked while long holds leave too few cores for it on one of its chips. It keeps its
// place in the order, but has no turn and no cores: the gangs behind it, and other tasks, use the
// chips.
//
// Guarantees:
// - No deadlock. Gangs that are not blocked take no cores from each other: the first of them has
//   the turn on all its chips, so no other gang collects there. Busy cores become free when their
//   blocks end, or their blocks become long holds. So after a bounded time that gang is placed or
//   blocked, and another gang is the first.
// - No core is idle for long: a gang collects on all its chips or on none, and only until its
//   patience expires.
// - No gang waits forever behind gangs of its class. The tag of a new gang exceeds that of the gang
//   that was placed last by at least a fixed step, so only finitely many gangs get a smaller tag
//   than a waiting gang.
// - Gangs and other tasks of one class share the chips by the weights of their accounts.
// - Once the long holds in its way have ended, the first gang of its class waits only for the
// blocks
//   that run then, and starts within a few times the duration of the longest of them.
//
// Tags implement weighted fair queueing: the tag of a gang is the larger of its run's last tag and
// the tag that was placed last, plus its number of cores, divided by the weight of its account and
// multiplied by the number of the account's runs that have gangs here. So a run with many ready
// gangs does not delay runs with few.
//
// Thread-safe. Its lock is taken before the locks of the queues.
class GangBook {
 public:
  // Receives a placed gang whose kernel works in phases. The blocks of such a gang are not queued.
  using OnPhased = std::function<void(Run& run, uint32_t task, std::vector<BlockPlace> places)>;

  // `queues` has one queue for each chip, by index. They must outlive the book.
  explicit GangBook(std::vector<ReadyQueue*> queues);
  // Must be called before the first gang with such a kernel is added.
  void SetOnPhased(OnPhased on_phased) { on_phased_ = std::move(on_phased); }
  // Receives all blocks of a placed gang that uses a lane, which gets them together. They are not
  // queued.
  using OnLane = std::function<void(Run& run, std::vector<BlockTicket> blocks)>;
  void SetOnLane(OnLane on_lane) { on_lane_ = std::move(on_lane); }

  // Add and Advance return how many threads to wake: blocks that became ready, plus tasks that wait
  // on chips where cores were released. Add adds a ready gang.
  uint64_t Add(Run& run, uint32_t task);
  // Handles news of a chip for its gang. `long_hold_ended`: blocked gangs may have room now.
  uint64_t Advance(uint32_t chip, bool long_hold_ended);

  // Removes one gang of the run and releases its cores. Returns false if the run has no gang here.
  // `*ready`: as Add returns.
  bool Remove(const Run& run, uint32_t* task, uint64_t* ready);

  // The number of gangs that wait for a chip. May be out of date at once.
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
    GangSet waiting;  // without the blocked ones
    GangSet blocked;
    Gang* turn = nullptr;  // the first waiting gang, once its queue knows it
    std::atomic<uint32_t> count{0};
  };
  struct RunGangs {
    std::list<Gang> gangs;
    double last_tag = 0;
  };

  // The tag of a new gang.
  double NextTag(RunGangs& of_run, const Run& run, uint64_t cores)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chips to check next.
  using Chips = std::vector<uint32_t>;
  // Starting with these chips, gives turns and places gangs until nothing changes. Returns as Add.
  uint64_t Settle(Chips chips) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the turn on a chip to the first gang that waits there. Returns as Add.
  uint64_t GiveTurn(uint32_t chip) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Advances a gang as far as possible. Adds to `chips` those where another gang may get the turn.
  uint64_t Try(Gang& gang, Chips* chips) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts collecting if the gang may do so on all its chips.
  bool Begin(Gang& gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Releases all its cores. Returns as Add.
  uint64_t Stop(Gang& gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes its cores irrevocable on all its chips. False if one chip does not have them all any
  // more.
  bool Fix(const Gang& gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Place(Gang& gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasTurns(const Gang& gang) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom(const Gang& gang) const;
  // Moves it to the waiting or to the blocked gangs.
  void SetBlocked(Gang& gang, bool blocked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void AddChips(const Gang& gang, Chips* chips);
  static Gang::Member& MemberOn(Gang& gang, uint32_t chip);
  // Removes a gang from the order and returns it. It may still have turns, which Settle ends.
  std::list<Gang> TakeOut(Gang& gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Assigns its cores, chip by chip.
  std::vector<BlockPlace> PlacesOf(const Gang& gang);

  const std::vector<ReadyQueue*> queues_;
  OnPhased on_phased_;
  OnLane on_lane_;
  Mutex mutex_;
  std::vector<ChipGangs> chips_;
  absl::flat_hash_map<const Run*, RunGangs> runs_ ABSL_GUARDED_BY(mutex_);
  // The number of runs of each account that have gangs here.
  absl::flat_hash_map<const Account*, uint32_t> accounts_ ABSL_GUARDED_BY(mutex_);
  // For each class, the tag of the gang that was placed last.
  std::array<double, 3> placed_tag_ ABSL_GUARDED_BY(mutex_) = {};
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> count_{0};
};

}  // namespace pto::engine

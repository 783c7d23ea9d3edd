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
#include "runtime/engine/ready_queue.h"
#include "runtime/engine/reservation.h"
#include "runtime/engine/run.h"

namespace pto {

// The gangs that wait: tasks of which all blocks, on all their chips, start together.
//
// All gangs stand in one order, by class and then by a tag that a gang gets when it becomes ready
// and keeps. On each chip the first gang of this order that needs the chip reserves cores as they
// fall free, and no other gang does. A gang that has all its cores on all its chips is placed:
// each block gets its core, then all of them are handed out.
//
// Why this ends well:
// - No deadlock. The first gang of all is the first on each of its chips, so nobody else reserves
//   there; whoever did before it came has given that back. Cores that are busy fall free when
//   their blocks end, and it keeps what it gets: it will be placed, whatever the others wait for.
// - No gang waits for ever behind gangs of its class. A new gang's tag is larger than that of the
//   gang that was placed last, by no less than a fixed step; so only finitely many get a smaller
//   tag than one that waits.
// - No gang waits for ever behind other tasks of its class, nor they behind gangs: between two
//   gangs a chip lets as many blocks go first as it has cores, if they wait, and no more.
// All this holds only if blocks that run come to an end without those that wait. A block that
// waits for a signal of a task that has not started may wait for one that has to let a gang go
// first. Tasks that wait for each other have to be one gang; else the time of the wait ends it.
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

  // These return how many calls of kernels have become ready by it.
  // Adds a ready gang.
  uint64_t Add(Run& run, uint32_t task);
  // Looks at a chip on which a reservation became complete.
  uint64_t Advance(uint32_t chip);

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
      bool complete = false;
      Reservation reservation;
    };
    Run* run = nullptr;
    uint32_t task = 0;
    double tag = 0;
    uint64_t number = 0;
    uint32_t complete = 0;  // members that are
    std::vector<Member> members;
    std::list<Gang>::iterator self;
  };
  struct Before {
    bool operator()(const Gang* a, const Gang* b) const;
  };
  struct ChipGangs {
    std::set<Gang*, Before> waiting;
    Gang* turn = nullptr;  // the first of them
    std::atomic<uint32_t> count{0};
  };
  struct RunGangs {
    std::list<Gang> gangs;
    double last_tag = 0;
  };

  // The tag of a new gang.
  double NextTag(RunGangs& of_run, const Run& run, uint64_t cores)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the first gang of a chip reserve there. Returns it when it has all that it needs.
  Gang* GiveTurn(uint32_t chip) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a member that is complete. Returns the gang when all are.
  static Gang* Complete(Gang& gang, Gang::Member& member);
  static Gang::Member& MemberOn(Gang& gang, uint32_t chip);
  // Places a gang that has all it needs, and those for which that made way.
  uint64_t Place(Gang* gang) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a gang out of the order and returns it. It may still have turns, which GiveTurn ends.
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

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/chip/chip_health.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"

namespace pto::daemon {

// Exclusive use of chips by sessions. Sessions are served in the order of their requests. Only the
// first waiting session collects chips as they become free, and runs of others are kept off these
// chips from then on: so it gets all of them eventually, and then the next session has its turn.
// Unusable chips are not granted to anybody; a session that has one keeps it.
//
// A lease is granted only if no other session has work on its chips. Work is a run that the engine
// has accepted (`busy`), or a claim. To start work, first make it visible in one of these two ways
// and then call Check: either Check sees the lease, or the lease sees the work.
//
// Sessions belong to owners. A session can use the lease of another session only if both have the
// same owner, and only then is it told who has a chip.
//
// Thread-safe; `busy` is called under its lock. Must outlive its claims.
class ChipLeases {
 private:
  struct Claimed {
    std::vector<uint32_t> chips;
    std::string session;
    std::string lease;
    std::string owner;
  };

 public:
  struct Options {
    uint32_t chips = 0;
    TimerQueue* timers = nullptr;
    const Clock* clock = nullptr;
    // Whether a chip is used by runs of sessions other than `holder` and those of its owner that
    // may use its lease.
    std::function<bool(uint32_t chip, const std::string& holder)> busy;
    // Which chips are usable; nullptr: all.
    const ChipHealth* health = nullptr;
  };

  // A session that wants to use chips.
  struct User {
    absl::string_view session;
    // The session whose lease may be used, too; empty: none.
    absl::string_view lease = {};
    absl::string_view owner = {};
  };

  // The current state of a lease.
  struct Lease {
    std::vector<uint32_t> chips;  // in increasing order; while waiting, the chips set aside for it
    bool granted = false;
    uint32_t position = 0;  // number of requests before it
  };

  // Work that a session may start later on some chips, and that the engine does not know yet. While
  // the claim exists, other sessions get no lease on these chips. Movable; one thread at a time.
  class Claim {
   public:
    Claim() = default;
    Claim(Claim&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), place_(other.place_) {}
    Claim& operator=(Claim&& other) noexcept {
      Drop();
      owner_ = std::exchange(other.owner_, nullptr);
      place_ = other.place_;
      return *this;
    }
    ~Claim() { Drop(); }
    // The engine knows the work, or it will never start.
    void Drop() {
      if (owner_ != nullptr) std::exchange(owner_, nullptr)->DropClaim(place_);
    }

   private:
    friend class ChipLeases;
    Claim(ChipLeases* owner, std::list<Claimed>::iterator place) : owner_(owner), place_(place) {}
    ChipLeases* owner_ = nullptr;
    std::list<Claimed>::iterator place_;
  };

  // Called once, from any thread, when the lease is granted or its session has ended.
  using Waiter = std::function<void()>;

  explicit ChipLeases(Options options) : options_(std::move(options)) {}

  // Requests `count` chips, from 1 to all, of at most `limit` that all requests of the owner want
  // together. Repeating the request returns the current state. Errors: ID_CONFLICT if the count
  // differs, QUOTA_CHIPS.
  absl::StatusOr<Lease> Ask(const std::string& session, uint32_t count, absl::string_view owner,
                            uint32_t limit);
  // The session's lease; SESSION_ENDED if it has none any more.
  absl::StatusOr<Lease> Find(const std::string& session) const;
  // Calls `waiter` when a waiting lease changes; calls it immediately and returns 0 if the lease
  // does not wait. The number is for RemoveWaiter.
  uint64_t AddWaiter(const std::string& session, Waiter waiter);
  void RemoveWaiter(uint64_t id);
  // The session has ended.
  void Release(const std::string& session);

  // A chip is usable again.
  void LookAgain() { Advance(); }

  // CHIP_UNAVAILABLE if one of the chips is unusable, CHIP_LEASED if one is leased to another
  // session. Only two loads if all chips are usable and there are no leases.
  absl::Status Check(absl::Span<const uint32_t> chips, const User& user) const {
    if (absl::Status usable = CheckHealth(chips); !usable.ok()) return usable;
    if (count_.load(std::memory_order_acquire) == 0) return absl::OkStatus();
    return CheckAll(chips, user);
  }

  // CHIP_UNAVAILABLE if one of the chips is unusable, whoever has leased it.
  absl::Status CheckHealth(absl::Span<const uint32_t> chips) const {
    return options_.health == nullptr ? absl::OkStatus() : options_.health->Check(chips);
  }

  // Claims the chips for work that starts later. Errors: as Check.
  absl::StatusOr<Claim> MakeClaim(absl::Span<const uint32_t> chips, const User& user);
  size_t claims() const;

  // The session that has or will get a chip, and its owner.
  struct Holder {
    std::string session;  // empty if there is none
    std::string owner;
  };
  Holder HolderOf(uint32_t chip) const;

 private:
  struct Entry {
    std::string session;
    std::string owner;
    uint32_t wanted = 0;
    std::vector<uint32_t> chips;
    bool granted = false;
    std::vector<std::pair<uint64_t, Waiter>> waiters;
  };

  absl::Status CheckAll(absl::Span<const uint32_t> chips, const User& user) const;
  absl::Status CheckLocked(absl::Span<const uint32_t> chips, const User& user) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropClaim(std::list<Claimed>::iterator place);
  // Whether sessions other than the holder, and those that may use its lease, have work on the
  // chip.
  bool UsedLocked(uint32_t chip, const Entry& holder) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Entry* HolderLocked(uint32_t chip) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* FindLocked(absl::string_view session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Lease DescribeLocked(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Grants what is possible, and checks again later while a request waits for runs to end.
  void Advance();
  // Returns whether the first waiting request waits only for runs of others.
  bool AdvanceLocked(std::vector<Waiter>* tell) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  std::atomic<uint32_t> count_{0};  // number of entries
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // in the order of the requests
  std::list<Claimed> claims_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_waiter_ ABSL_GUARDED_BY(mutex_) = 1;
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;  // a timer is set
};

}  // namespace pto::daemon

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

namespace pto {

// Who has chips for itself. Sessions are served in the order in which they asked. Only the first
// of those that wait takes chips that become free, one after the other, and runs of others are
// kept off these from then on: so it gets them all, and then it is the next one's turn. Chips that
// cannot be used are not given to anybody; who has one keeps it.
//
// A lease is granted only when no other session has work on its chips. Work is a run that the
// engine has accepted (`busy`), or a claim. Who starts work first makes it visible in one of these
// two ways and then calls Check: either Check sees the lease, or the lease sees the work.
//
// Thread-safe; `busy` is called under its lock. Must outlive its claims.
class ChipLeases {
 private:
  struct Claimed {
    std::vector<uint32_t> chips;
    std::string session;
    std::string lease;
  };

 public:
  struct Options {
    uint32_t chips = 0;
    TimerQueue* timers = nullptr;
    const Clock* clock = nullptr;
    // Whether runs of sessions other than `holder`, and those that may use its lease, use a chip.
    std::function<bool(uint32_t chip, const std::string& holder)> busy;
    // Which chips can be used; nullptr: all of them.
    const ChipHealth* health = nullptr;
  };

  // One lease, as it is now.
  struct Lease {
    std::vector<uint32_t> chips;  // rising; of one that waits: those set aside for it
    bool granted = false;
    uint32_t position = 0;  // how many wait before it
  };

  // Work that a session may start later on some chips, and that the engine does not know yet. While
  // it exists no lease of others on these chips is granted. Can be moved; one thread at a time.
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
    // The work is known to the engine, or will never start.
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

  // Asks for `count` chips, 1 to all. The same again returns the present state; ID_CONFLICT when
  // it was another count.
  absl::StatusOr<Lease> Ask(const std::string& session, uint32_t count);
  // The session's lease; SESSION_ENDED when it has none any more.
  absl::StatusOr<Lease> Find(const std::string& session) const;
  // Calls `waiter` when there is news of a lease that waits; at once, and returning 0, when it
  // does not. The number is for RemoveWaiter.
  uint64_t AddWaiter(const std::string& session, Waiter waiter);
  void RemoveWaiter(uint64_t id);
  // The session has ended.
  void Release(const std::string& session);

  // A chip can be used again.
  void LookAgain() { Advance(); }

  // CHIP_UNAVAILABLE when one of the chips cannot be used, CHIP_LEASED when one is another
  // session's. `lease` is whose lease the session may use, if any. Two loads when all chips can be
  // used and there are no leases.
  absl::Status Check(absl::Span<const uint32_t> chips, absl::string_view session,
                     absl::string_view lease) const {
    if (absl::Status usable = CheckHealth(chips); !usable.ok()) return usable;
    if (count_.load(std::memory_order_acquire) == 0) return absl::OkStatus();
    return CheckAll(chips, session, lease);
  }

  // CHIP_UNAVAILABLE when one of the chips cannot be used, whoever has leased it.
  absl::Status CheckHealth(absl::Span<const uint32_t> chips) const {
    return options_.health == nullptr ? absl::OkStatus() : options_.health->Check(chips);
  }

  // Claims the chips for work that starts later. Errors: as Check.
  absl::StatusOr<Claim> MakeClaim(absl::Span<const uint32_t> chips, absl::string_view session,
                                  absl::string_view lease);
  size_t claims() const;

  // The session that has the chip or is about to; empty when there is none.
  std::string HolderOf(uint32_t chip) const;

 private:
  struct Entry {
    std::string session;
    uint32_t wanted = 0;
    std::vector<uint32_t> chips;
    bool granted = false;
    std::vector<std::pair<uint64_t, Waiter>> waiters;
  };

  absl::Status CheckAll(absl::Span<const uint32_t> chips, absl::string_view session,
                        absl::string_view lease) const;
  absl::Status CheckLocked(absl::Span<const uint32_t> chips, absl::string_view session,
                           absl::string_view lease) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropClaim(std::list<Claimed>::iterator place);
  // Whether others than the holder, and those that may use its lease, have work on the chip.
  bool UsedLocked(uint32_t chip, const std::string& holder) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Entry* HolderLocked(uint32_t chip) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* FindLocked(absl::string_view session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Lease DescribeLocked(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives what can be given, and looks again later while somebody waits for runs to end.
  void Advance();
  // Returns whether the first that waits waits for nothing but runs of others.
  bool AdvanceLocked(std::vector<Waiter>* tell) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  std::atomic<uint32_t> count_{0};  // of entries
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // in the order in which they asked
  std::list<Claimed> claims_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_waiter_ ABSL_GUARDED_BY(mutex_) = 1;
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;  // a timer is set
};

}  // namespace pto

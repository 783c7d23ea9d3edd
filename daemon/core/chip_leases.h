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
#include "daemon/core/chip_health.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"

namespace pto {

// Who has chips for itself. Sessions are served in the order in which they asked. Only the first
// of those that wait takes chips that become free, one after the other, and runs of others are
// kept off these from then on: so it gets them all, and then it is the next one's turn. Chips that
// cannot be used are not given to anybody; who has one keeps it.
// Thread-safe; `busy` is called under its lock.
class ChipLeases {
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
    if (options_.health != nullptr) {
      if (absl::Status usable = options_.health->Check(chips); !usable.ok()) return usable;
    }
    if (count_.load(std::memory_order_acquire) == 0) return absl::OkStatus();
    return CheckAll(chips, session, lease);
  }

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
  uint64_t next_waiter_ ABSL_GUARDED_BY(mutex_) = 1;
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;  // a timer is set
};

}  // namespace pto

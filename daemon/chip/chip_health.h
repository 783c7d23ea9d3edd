#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/chip/chip_stall.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto {

// Which chips can be used, and what is wrong with those that cannot.
//
// A chip is faulted when a probe of it fails or when it hangs (ChipStall). Then it is probed again
// and again, at first soon and later every second, and is active as soon as that goes well.
// Somebody has to show it signs of the chips: see ChipMonitor. Thread-safe; its lock is a leaf.
class ChipHealth {
 public:
  struct Options {
    uint32_t chips = 0;
    const Clock* clock = nullptr;
    // How long a chip hangs before that is a fault; zero: it never is.
    absl::Duration stall_after;
    // How often See is called, about.
    absl::Duration look_every = absl::Milliseconds(250);
    // What is wrong with a chip, in words; empty when nothing is. Must return soon. Called from
    // any thread, without a lock.
    std::function<std::string(uint32_t chip)> probe;
  };

  enum class State { kActive, kResetting, kFaulted };

  // A chip as it is now.
  struct View {
    State state = State::kActive;
    absl::Time since;          // when it came into this state
    absl::Status fault;        // CHIP_UNAVAILABLE while it is faulted
    absl::Status last_fault;   // the newest one, even when it is over
    uint64_t faults = 0;       // how often it has become faulted
    absl::Time last_progress;  // when it was seen that a task had ended; InfinitePast: never
    ChipSign sign;             // as it was shown last
  };

  explicit ChipHealth(Options options);

  // CHIP_UNAVAILABLE when one of the chips is faulted. One load while none is.
  absl::Status Check(absl::Span<const uint32_t> chips) const {
    if (faulted_.load(std::memory_order_acquire) == 0) return absl::OkStatus();
    return CheckAll(chips);
  }
  bool usable(uint32_t chip) const { return Check({&chip, 1}).ok(); }
  // How many can be used.
  uint32_t usable_chips() const {
    return options_.chips - faulted_.load(std::memory_order_acquire);
  }
  View Look(uint32_t chip) const;
  absl::Duration look_every() const { return options_.look_every; }

  // Judges a chip by what is seen of it, and probes it if it is time for that.
  void See(uint32_t chip, const ChipSign& sign);
  // Judges it anew, as if it had just begun, after `stop_work` has taken it away from its runs.
  void Reset(uint32_t chip, const std::function<void()>& stop_work);

  // How long nobody has to probe a chip; zero when it is time for one.
  absl::Duration UntilProbe() const;

 private:
  struct Entry {
    explicit Entry(const Options& options);
    bool resetting = false;
    uint64_t resets = 0;
    absl::Status fault;
    absl::Status last_fault;
    uint64_t faults = 0;
    absl::Time since;
    absl::Time last_progress = absl::InfinitePast();
    ChipSign sign;
    ChipStall stall;
    // While it is faulted: when to probe it again, and how long to wait after that.
    int64_t probe_at_ns = 0;
    int64_t wait_ns = 0;
  };

  absl::Status CheckAll(absl::Span<const uint32_t> chips) const;
  // Takes what was found: empty when nothing is wrong.
  void Judge(uint32_t chip, const std::string& wrong) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  std::atomic<uint32_t> faulted_{0};  // how many
  mutable Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto

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

namespace pto::daemon {

// Which chips are usable, and what is wrong with the others.
//
// A chip is faulted if a probe fails or if it hangs (ChipStall). It is then probed repeatedly, soon
// at first and later every second, and is active again as soon as a probe succeeds. The caller must
// supply signs of the chips: see ChipMonitor. Thread-safe; its lock is a leaf.
class ChipHealth {
 public:
  struct Options {
    uint32_t chips = 0;
    const Clock* clock = nullptr;
    // How long a chip must hang to count as faulted; zero disables the check.
    absl::Duration stall_after;
    // The approximate interval between calls of See.
    absl::Duration look_every = absl::Milliseconds(250);
    // Returns what is wrong with a chip; empty if nothing is. Must return quickly. Called from any
    // thread, without a lock.
    std::function<std::string(uint32_t chip)> probe;
  };

  enum class State { kActive, kResetting, kFaulted };

  // The current state of a chip.
  struct View {
    State state = State::kActive;
    absl::Time since;          // start of this state
    absl::Status fault;        // CHIP_UNAVAILABLE while faulted
    absl::Status last_fault;   // the latest fault, even if it is over
    uint64_t faults = 0;       // number of faults so far
    absl::Time last_progress;  // when an ended task was last noticed; InfinitePast: never
    ChipSign sign;             // the latest sign
  };

  explicit ChipHealth(Options options);

  // CHIP_UNAVAILABLE if one of the chips is faulted. A single load if no chip is.
  absl::Status Check(absl::Span<const uint32_t> chips) const {
    if (faulted_.load(std::memory_order_acquire) == 0) return absl::OkStatus();
    return CheckAll(chips);
  }
  bool usable(uint32_t chip) const { return Check({&chip, 1}).ok(); }
  // The number of usable chips.
  uint32_t usable_chips() const {
    return options_.chips - faulted_.load(std::memory_order_acquire);
  }
  View Look(uint32_t chip) const;
  absl::Duration look_every() const { return options_.look_every; }

  // Judges a chip by a new sign, and probes it if a probe is due.
  void See(uint32_t chip, const ChipSign& sign);
  // Judges the chip afresh, after `stop_work` has removed its work.
  void Reset(uint32_t chip, const std::function<void()>& stop_work);

  // The time until the next probe is due; zero if one is due now.
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
    // While faulted: the time of the next probe, and the delay after it.
    int64_t probe_at_ns = 0;
    int64_t wait_ns = 0;
  };

  absl::Status CheckAll(absl::Span<const uint32_t> chips) const;
  // Applies a finding; empty if nothing is wrong.
  void Judge(uint32_t chip, const std::string& wrong) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  std::atomic<uint32_t> faulted_{0};  // number of faulted chips
  mutable Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon

#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace pto {

// The source of time. Everything with a timeout takes a Clock, so that tests control time.
// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Monotonic, in ns from an arbitrary start.
  virtual int64_t NowNanos() const = 0;

  // Time of day, for people.
  virtual absl::Time WallTime() const = 0;

  // The machine's clock.
  static Clock& Real();
};

// Advances only when told to.
class ManualClock final : public Clock {
 public:
  int64_t NowNanos() const override { return now_.load(std::memory_order_acquire); }
  absl::Time WallTime() const override {
    return absl::FromUnixSeconds(1'000'000'000) + absl::Nanoseconds(NowNanos());
  }
  void Advance(absl::Duration by) {
    now_.fetch_add(absl::ToInt64Nanoseconds(by), std::memory_order_acq_rel);
  }

 private:
  std::atomic<int64_t> now_{1};
};

}  // namespace pto

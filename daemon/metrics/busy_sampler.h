#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/timer.h"
#include "runtime/engine/engine.h"

namespace pto::daemon::metrics {

// Samples many times a second how many cores of each chip are busy and sums up the time. Exact
// numbers would require reading a clock whenever a task takes and leaves its core. Thread-safe.
class BusySampler : public std::enable_shared_from_this<BusySampler> {
 public:
  static constexpr int64_t kPeriodNs = 20'000'000;

  // All arguments, and the timers' thread, must outlive it.
  static std::shared_ptr<BusySampler> Start(engine::Engine& engine, TimerQueue& timers,
                                            const Clock& clock);
  void Stop() { stopped_.store(true, std::memory_order_release); }

  // The total busy time of the chip's cores.
  double busy_seconds(uint32_t chip) const {
    return static_cast<double>(busy_ns_[chip].load(std::memory_order_relaxed)) / 1e9;
  }

  // Takes one sample; for tests.
  void Sample();

 private:
  BusySampler(engine::Engine& engine, TimerQueue& timers, const Clock& clock)
      : engine_(engine), timers_(timers), clock_(clock), busy_ns_(engine.chips().size()) {}
  void Schedule();

  engine::Engine& engine_;
  TimerQueue& timers_;
  const Clock& clock_;
  std::atomic<bool> stopped_{false};
  int64_t last_ns_ = 0;  // for the timers' thread
  std::vector<std::atomic<uint64_t>> busy_ns_;
};

}  // namespace pto::daemon::metrics

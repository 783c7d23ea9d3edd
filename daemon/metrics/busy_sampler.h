#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/timer.h"
#include "runtime/engine/engine.h"

namespace pto::daemon::metrics {

// Samples many times a second how many cores of each chip are busy and sums up the time. Exact
// numbers would require reading a clock whenever a task takes and leaves its core. Sleeps while no
// run can begin, because samples alone would take 0.2 % of a CPU. Thread-safe.
class BusySampler : public std::enable_shared_from_this<BusySampler> {
 public:
  static constexpr int64_t kPeriodNs = 20'000'000;

  // Whether there is somebody whose runs may begin at any time.
  using InUse = std::function<bool()>;

  // All arguments, and the timers' thread, must outlive it. Sleeps until Wake.
  static std::shared_ptr<BusySampler> Start(engine::Engine& engine, TimerQueue& timers,
                                            const Clock& clock, InUse in_use);
  // Must be called when `in_use` may have become true. Cheap while it does not sleep.
  void Wake();
  void Stop() { stopped_.store(true, std::memory_order_release); }

  // The total busy time of the chip's cores.
  double busy_seconds(uint32_t chip) const {
    return static_cast<double>(busy_ns_[chip].load(std::memory_order_relaxed)) / 1e9;
  }

  // Takes one sample; for tests.
  void Sample();

 private:
  BusySampler(engine::Engine& engine, TimerQueue& timers, const Clock& clock, InUse in_use)
      : engine_(engine),
        timers_(timers),
        clock_(clock),
        in_use_(std::move(in_use)),
        busy_ns_(engine.chips().size()) {}
  void Schedule();
  bool MaySleep() const { return engine_.active_runs() == 0 && !in_use_(); }

  engine::Engine& engine_;
  TimerQueue& timers_;
  const Clock& clock_;
  const InUse in_use_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> asleep_{true};
  int64_t last_ns_ = 0;  // for whoever schedules the next sample
  std::vector<std::atomic<uint64_t>> busy_ns_;
};

}  // namespace pto::daemon::metrics

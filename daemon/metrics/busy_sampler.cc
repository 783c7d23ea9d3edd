#include "daemon/metrics/busy_sampler.h"

namespace pto::daemon::metrics {

std::shared_ptr<BusySampler> BusySampler::Start(engine::Engine& engine, TimerQueue& timers,
                                                const Clock& clock, InUse in_use) {
  return std::shared_ptr<BusySampler>(new BusySampler(engine, timers, clock, std::move(in_use)));
}

void BusySampler::Wake() {
  if (!asleep_.load(std::memory_order_relaxed) || !asleep_.exchange(false)) return;
  last_ns_ = clock_.NowNanos();
  Schedule();
}

void BusySampler::Schedule() {
  timers_.Schedule(clock_.NowNanos() + kPeriodNs, [weak = weak_from_this()] {
    const std::shared_ptr<BusySampler> self = weak.lock();
    if (self == nullptr || self->stopped_.load(std::memory_order_acquire)) return;
    self->Sample();
    if (self->MaySleep()) {
      self->asleep_.store(true);
      // Somebody may have come meanwhile, whose Wake has found it awake. One of the two goes on.
      if (self->MaySleep() || !self->asleep_.exchange(false)) return;
    }
    self->Schedule();
  });
}

void BusySampler::Sample() {
  const int64_t now = clock_.NowNanos();
  const int64_t passed = now - last_ns_;
  last_ns_ = now;
  for (uint32_t chip = 0; chip < busy_ns_.size(); ++chip) {
    const uint64_t busy = engine_.chip_use(chip).busy_cores;
    busy_ns_[chip].fetch_add(busy * static_cast<uint64_t>(passed), std::memory_order_relaxed);
  }
}

}  // namespace pto::daemon::metrics

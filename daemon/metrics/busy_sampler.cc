#include "daemon/metrics/busy_sampler.h"

namespace pto::daemon::metrics {

std::shared_ptr<BusySampler> BusySampler::Start(engine::Engine& engine, TimerQueue& timers,
                                                const Clock& clock) {
  std::shared_ptr<BusySampler> sampler(new BusySampler(engine, timers, clock));
  sampler->last_ns_ = clock.NowNanos();
  sampler->Schedule();
  return sampler;
}

void BusySampler::Schedule() {
  timers_.Schedule(clock_.NowNanos() + kPeriodNs, [weak = weak_from_this()] {
    const std::shared_ptr<BusySampler> self = weak.lock();
    if (self == nullptr || self->stopped_.load(std::memory_order_acquire)) return;
    self->Sample();
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

#include "daemon/usage/usage_counter.h"

#include <cmath>

namespace pto::daemon {

UsageAmount UsageCounter::Take(double ns_per_tick) {
  UsageAmount taken;
  taken.core_ns =
      static_cast<uint64_t>(std::llround(static_cast<double>(core_time_.Take()) * ns_per_tick));
  taken.runs = runs_.exchange(0, std::memory_order_relaxed);
  SpinLockHolder lock(lock_);
  Measure();
  taken.memory_byte_seconds = static_cast<uint64_t>(byte_ns_ / kNsPerSecond);
  byte_ns_ %= kNsPerSecond;
  return taken;
}

bool UsageCounter::idle() const {
  SpinLockHolder lock(lock_);
  return held_bytes_ == 0 && runs_.load(std::memory_order_relaxed) == 0;
}

}  // namespace pto::daemon

#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace pto {

// A counter that increases with time and costs a few nanoseconds to read, a fraction of a clock.
// Its unit is unknown: to convert ticks to times, read a clock at both ends of an interval.
inline uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Converts ticks of an interval to nanoseconds of a clock that was read at both of its ends.
class TickScale {
 public:
  TickScale(int64_t first_ns, uint64_t first_ticks, int64_t last_ns, uint64_t last_ticks)
      : first_ns_(first_ns),
        last_ns_(last_ns),
        first_ticks_(first_ticks),
        ns_per_tick_(last_ticks > first_ticks ? static_cast<double>(last_ns - first_ns) /
                                                    static_cast<double>(last_ticks - first_ticks)
                                              : 0) {}

  // Never returns a time outside the interval, even if the counter jumps.
  int64_t ToNanos(uint64_t ticks) const {
    if (ticks <= first_ticks_) return first_ns_;
    const int64_t ns =
        first_ns_ + static_cast<int64_t>(static_cast<double>(ticks - first_ticks_) * ns_per_tick_);
    return ns < last_ns_ ? ns : last_ns_;
  }

 private:
  const int64_t first_ns_;
  const int64_t last_ns_;
  const uint64_t first_ticks_;
  const double ns_per_tick_;
};

// The approximate number of ticks per microsecond, for heuristics. Measured once.
double TicksPerMicrosecond();

}  // namespace pto

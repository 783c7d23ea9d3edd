#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace pto {

// A counter that rises with time and costs a few nanoseconds to read, a fraction of what a clock
// costs. It has no unit of its own: whoever wants times reads a clock at both ends of a stretch.
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

// Turns ticks of one stretch into nanoseconds of a clock that was read at both ends of it.
class TickScale {
 public:
  TickScale(int64_t first_ns, uint64_t first_ticks, int64_t last_ns, uint64_t last_ticks)
      : first_ns_(first_ns),
        last_ns_(last_ns),
        first_ticks_(first_ticks),
        ns_per_tick_(last_ticks > first_ticks ? static_cast<double>(last_ns - first_ns) /
                                                    static_cast<double>(last_ticks - first_ticks)
                                              : 0) {}

  // Never outside of the stretch, whatever the counter does.
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

// About how many ticks a microsecond has, for rules of thumb. Measured once.
double TicksPerMicrosecond();

}  // namespace pto

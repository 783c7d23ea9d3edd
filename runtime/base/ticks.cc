#include "runtime/base/ticks.h"

namespace pto {
namespace {

double Measure() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kStretch = std::chrono::microseconds(200);
  const Clock::time_point start = Clock::now();
  const uint64_t first = Ticks();
  Clock::time_point now = start;
  while (now - start < kStretch) now = Clock::now();
  const std::chrono::duration<double, std::micro> took = now - start;
  return static_cast<double>(Ticks() - first) / took.count();
}

}  // namespace

double TicksPerMicrosecond() {
  static const double rate = Measure();
  return rate;
}

}  // namespace pto

#include "comm/waiting.h"

#include <sched.h>
#include <time.h>

#include <algorithm>

namespace pto::comm {
namespace {

int CpuCount() {
  cpu_set_t set;
  // A machine with more CPUs than the set holds has enough of them.
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return CPU_SETSIZE;
  return CPU_COUNT(&set);
}

}  // namespace

int64_t NowNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Patience Patience::For(uint32_t ranks) {
  const bool crowded = ranks > static_cast<uint32_t>(CpuCount());
  return crowded ? Patience{.spins = 0, .yield_nanos = 2'000'000}
                 : Patience{.spins = 1000, .yield_nanos = 500'000};
}

absl::Status AwaitSlowly(absl::FunctionRef<bool()> ready, Bell& bell, int64_t yield_nanos,
                         int64_t deadline, absl::FunctionRef<absl::Status()> trouble) {
  const int64_t start = NowNanos();
  const int64_t yield_until = std::min(start + yield_nanos, deadline);
  int64_t now = start;
  while (now < yield_until) {
    for (int i = 0; i < 8; ++i) {
      sched_yield();
      if (ready()) return absl::OkStatus();
    }
    now = NowNanos();
  }
  int64_t look_at = now + kLookAfterNanos;
  BellSleeper sleeper(bell);
  while (true) {
    sleeper.Listen();
    if (ready()) return absl::OkStatus();
    sleeper.Sleep(std::min(look_at, deadline) - now);
    if (ready()) return absl::OkStatus();
    now = NowNanos();
    if (now >= look_at || now >= deadline) {
      // A dead rank is a better explanation than a timeout.
      absl::Status found = trouble();
      if (ready()) return absl::OkStatus();
      if (!found.ok()) return found;
      look_at = now + kLookAfterNanos;
    }
    if (now >= deadline) return absl::DeadlineExceededError("");
  }
}

}  // namespace pto::comm

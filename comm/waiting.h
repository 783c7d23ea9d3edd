#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "comm/bell.h"
#include "runtime/base/pause.h"

namespace pto::comm {

// Ns of CLOCK_MONOTONIC, which is the same for all processes of the machine.
int64_t NowNanos();

// How long to poll before sleeping. Waking a sleeper costs tens of microseconds on a virtual
// machine, so short waits should not sleep; but with more ranks than CPUs, a spinning rank keeps
// the rank that it waits for from running.
struct Patience {
  int spins;            // polls, with a pause after each
  int64_t yield_nanos;  // then polls, yielding the CPU before each

  // For `ranks` on the CPUs that this process may use.
  static Patience For(uint32_t ranks);
};

// How long a sleeper sleeps before it checks that the others are still alive.
inline constexpr int64_t kLookAfterNanos = 20'000'000;

// The part of Await that yields and sleeps.
absl::Status AwaitSlowly(absl::FunctionRef<bool()> ready, Bell& bell, int64_t yield_nanos,
                         int64_t deadline, absl::FunctionRef<absl::Status()> trouble);

// Waits until `ready()`; its changes ring `bell`. Polls `trouble` now and then and returns its
// error. Returns DEADLINE_EXCEEDED without a text at the deadline; OK if `ready()` holds at that
// time.
template <typename Ready>
absl::Status Await(Ready&& ready, Bell& bell, const Patience& patience, int64_t deadline,
                   absl::FunctionRef<absl::Status()> trouble) {
  if (ready()) return absl::OkStatus();
  for (int i = 0; i < patience.spins; ++i) {
    Pause();
    if (ready()) return absl::OkStatus();
  }
  return AwaitSlowly(ready, bell, patience.yield_nanos, deadline, trouble);
}

}  // namespace pto::comm

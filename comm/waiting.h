#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "comm/bell.h"
#include "runtime/base/pause.h"

namespace pto::comm {

// Ns of CLOCK_MONOTONIC, which is one clock for all processes of the machine.
int64_t NowNanos();

// How long to try before sleeping. Waking a sleeper costs tens of microseconds on a virtual
// machine, so short waits had better not sleep; but with more ranks than CPUs, whoever spins keeps
// the one from working for whom it waits.
struct Patience {
  int spins;            // looks, with a pause after each
  int64_t yield_nanos;  // then looks, each after giving the CPU to others

  // For `ranks` on the CPUs that this process may use.
  static Patience For(uint32_t ranks);
};

// How long a sleeper sleeps before it looks whether those it waits for are still there.
inline constexpr int64_t kLookAfterNanos = 20'000'000;

// The part of Await that yields and sleeps.
absl::Status AwaitSlowly(absl::FunctionRef<bool()> ready, Bell& bell, int64_t yield_nanos,
                         int64_t deadline, absl::FunctionRef<absl::Status()> trouble);

// Waits until `ready`, whose changes ring `bell`. Returns the error of `trouble`, asked now and
// then, and DEADLINE_EXCEEDED without a text at the deadline; OK whenever `ready` holds at that
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

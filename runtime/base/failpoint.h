#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Failpoints: places where a test can inject a failure:
//
//   if (PTO_FAILPOINT("engine.notify") == FailAction::kDrop) return;
//
// Release builds (NDEBUG) contain no failpoints and no code for them. In other builds, a failpoint
// that is not set costs the load of one flag.
//
// They are set by a text; ptod reads it from the environment variable PTOD_FAILPOINTS. The text is
// a list of entries `NAME=WHAT`, separated by commas, where WHAT is
//   drop            skip the operation, but continue as if it had been done
//   error           fail with an error
//   delay:500ms     wait for that long first
//   hold:/path      wait until this file exists; `hold` alone waits forever
//   crash           end the process as kill -9 does
// and may be followed by `@N` (skip the first N), `*N` (at most N times) and `%P` (with a
// probability of P percent), in this order: `engine.notify=drop@3*1` drops the fourth notification.
namespace pto {

// What the code at a failpoint must do. Any delay is over when it is returned.
enum class FailAction { kNone, kDrop, kError };

#ifdef NDEBUG
inline constexpr bool kHasFailpoints = false;
#else
inline constexpr bool kHasFailpoints = true;
#endif

namespace failpoint {

// Sets these failpoints and clears all others. INVALID_ARGUMENT: the text is invalid and nothing
// was changed. UNIMPLEMENTED: this build has no failpoints and the text is not empty. Thread-safe.
absl::Status Set(absl::string_view text);

// How many times a failpoint that is set has acted.
int Hits(absl::string_view name);

extern std::atomic<bool> any_set;
FailAction Hit(absl::string_view name);

}  // namespace failpoint
}  // namespace pto

#define PTO_FAILPOINT(name)                                                             \
  ((::pto::kHasFailpoints && ::pto::failpoint::any_set.load(std::memory_order_relaxed)) \
       ? ::pto::failpoint::Hit(name)                                                    \
       : ::pto::FailAction::kNone)

#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Places in the program where a test can make things go wrong:
//
//   if (PTO_FAILPOINT("engine.notify") == FailAction::kDrop) return;
//
// A release build (NDEBUG) has none of them, and no code for them. Elsewhere one that is not set
// costs the load of one flag.
//
// They are set by text, for ptod by its environment's PTOD_FAILPOINTS: entries `NAME=WHAT`
// separated by commas, where WHAT is
//   drop            do not do what comes here, but go on as if it was done
//   error           fail with an error
//   delay:500ms     first wait for that long
//   hold:/path      first wait until there is such a file; `hold` alone waits for ever
//   crash           end the process as kill -9 does
// and may be followed by `@N` (let the first N pass), `*N` (only N times) and `%P` (only P of 100,
// by chance), in this order: `engine.notify=drop@3*1` drops the fourth notification.
namespace pto {

// What the code at a failpoint is to do. It has waited already if it was to wait.
enum class FailAction { kNone, kDrop, kError };

#ifdef NDEBUG
inline constexpr bool kHasFailpoints = false;
#else
inline constexpr bool kHasFailpoints = true;
#endif

namespace failpoint {

// Sets these failpoints, and no others. INVALID_ARGUMENT says what is wrong with the text; then
// nothing is changed. UNIMPLEMENTED in a build without failpoints, unless the text is empty.
// Thread-safe.
absl::Status Set(absl::string_view text);

// How often a failpoint that is set has done something.
int Hits(absl::string_view name);

extern std::atomic<bool> any_set;
FailAction Hit(absl::string_view name);

}  // namespace failpoint
}  // namespace pto

#define PTO_FAILPOINT(name)                                                             \
  ((::pto::kHasFailpoints && ::pto::failpoint::any_set.load(std::memory_order_relaxed)) \
       ? ::pto::failpoint::Hit(name)                                                    \
       : ::pto::FailAction::kNone)

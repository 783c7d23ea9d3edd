#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace pto::testing {

// Does, in an order that the seed decides, all that a client can leave behind in a daemon:
// sessions, buffers, mappings, domains, runs that wait, streams that are open. What fails does not
// matter. Counts its steps. The process kills itself between two of them, if nobody does before.
[[noreturn]] void LiveUntilKilled(const std::string& address, uint64_t seed, absl::Duration ttl,
                                  std::atomic<uint64_t>& steps);

}  // namespace pto::testing

#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace pto::testing {

// In a random order given by the seed, does everything that a client can leave behind in a daemon:
// sessions, buffers, mappings, domains, waiting runs, open streams. Errors are ignored. Counts its
// steps. The process kills itself between two of them, unless it is killed before.
[[noreturn]] void LiveUntilKilled(const std::string& address, uint64_t seed, absl::Duration ttl,
                                  std::atomic<uint64_t>& steps);

}  // namespace pto::testing

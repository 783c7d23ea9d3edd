#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/config/effective.h"

namespace pto::daemon {

// Sets what depends on the memory that the daemon may use: limits.max_memory_bytes and
// limits.max_client_memory_bytes where they are 0, and the memory of simulated chips. They
// advertise no more than there is: by default they share it, and none has more than all of it.
// Returns what the operator should know.
std::vector<std::string> ApplyMachine(uint64_t host_bytes, EffectiveConfig* effective);

}  // namespace pto::daemon

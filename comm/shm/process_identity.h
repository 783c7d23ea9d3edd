#pragma once

#include <sys/types.h>

#include <cstdint>

namespace pto::comm {

// A process as one number: its pid, and when it started, so that another one that gets the same pid
// later is told apart. Never 0. Processes must see each other in /proc, so in one pid namespace.
uint64_t OwnIdentity();

// Whether that very process still runs; one that has ended but was not reaped does not.
bool IsProcessAlive(uint64_t identity);

// A number for the pid namespace of this process.
uint64_t PidNamespace();

inline pid_t PidOf(uint64_t identity) { return static_cast<pid_t>(identity >> 32); }

}  // namespace pto::comm

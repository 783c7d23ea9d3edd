#pragma once

#include <sys/types.h>

#include <cstdint>

namespace pto::comm {

// Identifies a process by one number: its pid and start time, so that a later process with the same
// pid differs. Never 0. Processes must be in one pid namespace, to see each other in /proc.
uint64_t OwnIdentity();

// Whether that process still runs. A zombie does not.
bool IsProcessAlive(uint64_t identity);

// A number for the pid namespace of this process.
uint64_t PidNamespace();

inline pid_t PidOf(uint64_t identity) { return static_cast<pid_t>(identity >> 32); }

}  // namespace pto::comm

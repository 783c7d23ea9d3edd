#pragma once

#include <cstdint>
#include <string>

namespace pto {

// The memory that this process may use: that of the machine, or less if its cgroup, one above it
// or RLIMIT_AS allows less. `root` is where /proc and /sys are, for tests.
uint64_t HostMemoryBytes(const std::string& root = "");

// How many mappings this process may have: vm.max_map_count.
uint64_t MaxMappings(const std::string& root = "");

}  // namespace pto

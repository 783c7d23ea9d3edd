#pragma once

namespace pto::bench {

// Bytes per second that this many threads read and write together if each copies its part of a
// large memory: the upper bound for collectives over memory.
double MemoryRate(int threads, double seconds);

}  // namespace pto::bench

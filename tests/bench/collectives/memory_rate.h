#pragma once

namespace pto::bench {

// Bytes per second that so many threads read and write together when each copies its part of large
// memory: what no collective over memory can surpass.
double MemoryRate(int threads, double seconds);

}  // namespace pto::bench

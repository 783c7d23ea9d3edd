#pragma once

#include <memory>

#include "tests/bench/engine/scheduler.h"

namespace pto::bench {

// The least that runs a graph at all, on one thread: a counter for each task, the successors in one
// array, and a stack of what is ready. No kernels, cores, cancellation, waits or failures: it is
// the floor, not a peer.
std::unique_ptr<Scheduler> NewBareScheduler();

}  // namespace pto::bench

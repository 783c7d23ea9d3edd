#pragma once

#include <memory>

#include "tests/bench/engine/scheduler.h"

namespace pto::bench {

// The minimum that can run a graph, on one thread: a counter for each task, the successors in one
// array, and a stack of ready tasks. No kernels, cores, cancellation, waits or failures: a lower
// bound, not a peer.
std::unique_ptr<Scheduler> NewBareScheduler();

}  // namespace pto::bench

#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tests/bench/engine/scheduler.h"

namespace pto::bench {

// StarPU with `threads` CPU workers, its default scheduler and data dependencies: each task writes
// its own handle and reads those of its predecessors. Tasks run while others are submitted; what is
// left at the end is the run phase.
//
// Starts StarPU, which is possible only once per process; its workers sleep while no graph runs.
absl::StatusOr<std::unique_ptr<Scheduler>> NewStarPuScheduler(int threads);

}  // namespace pto::bench

#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tests/bench/engine/scheduler.h"

namespace pto::bench {

// StarPU with `threads` CPU workers, its default scheduler and dependencies from data: each task
// writes a handle of its own and reads those of the tasks that it comes after. Tasks run while
// others are being submitted; what is left at the end is the run phase.
//
// Starts StarPU, which can be only once in a process; its workers sleep while no graph is run.
absl::StatusOr<std::unique_ptr<Scheduler>> NewStarPuScheduler(int threads);

}  // namespace pto::bench

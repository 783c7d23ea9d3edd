#pragma once

#include <memory>

#include "tests/bench/engine/scheduler.h"

namespace pto::bench {

// OpenMP tasks with depend clauses, as implemented by GCC: each task writes its own byte and reads
// those of its predecessors. Tasks run while others are created, and if there are many, the
// creating thread runs tasks itself; what is left at the end is the run phase.
//
// nullptr if this program was not compiled by GCC.
std::unique_ptr<Scheduler> NewOpenMpScheduler(int threads);

}  // namespace pto::bench

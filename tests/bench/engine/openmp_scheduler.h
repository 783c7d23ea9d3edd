#pragma once

#include <memory>

#include "tests/bench/engine/scheduler.h"

namespace pto::bench {

// OpenMP tasks with depend clauses, as GCC has them: each task writes a byte of its own and reads
// those of the tasks that it comes after. Tasks run while others are being made, and when there
// are many, whoever makes one runs it; what is left at the end is the run phase.
//
// nullptr when this program was not compiled by GCC.
std::unique_ptr<Scheduler> NewOpenMpScheduler(int threads);

}  // namespace pto::bench

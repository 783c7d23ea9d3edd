#pragma once

#include <memory>

#include "tests/bench/engine/scheduler.h"

namespace pto::bench {

// oneTBB's flow graph: one continue_node for each task, in one array, with the same edges. The
// caller is one of the `threads`. While it exists, it limits oneTBB's threads in the whole process.
std::unique_ptr<Scheduler> NewOneTbbScheduler(int threads);

}  // namespace pto::bench

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/engine/run/run.h"

namespace pto::engine {

// Skips tasks that cannot run because an earlier task has failed: those in `tasks`, whose
// dependencies have all ended, and then the tasks behind them. Calls `skip` for each, in the order
// in which they are found, and leaves `tasks` empty. The caller must keep the run from ending.
template <typename Skip>
void SkipTasks(Run& run, std::vector<uint32_t>& tasks, Skip skip) {
  for (size_t i = 0; i < tasks.size(); ++i) {
    const uint32_t skipped = tasks[i];
    run.outcome().AddSkipped();
    skip(skipped);
    // One failed dependency is enough to skip a successor, even if its others have succeeded.
    for (const uint32_t successor : run.image().successors(skipped)) {
      if (run.tasks().met(successor).Add(true) == MetDependencies::State::kPoisoned) {
        tasks.push_back(successor);
      }
    }
  }
  tasks.clear();
}

}  // namespace pto::engine

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/engine/run/run.h"

namespace pto {

// Skips tasks that cannot run because one before them has failed: those in `tasks`, whose
// dependencies have all ended, and then those behind them. Calls `skip` for each, in the order in
// which they are found, and leaves `tasks` empty. The caller keeps the run from ending.
template <typename Skip>
void SkipTasks(Run& run, std::vector<uint32_t>& tasks, Skip skip) {
  for (size_t i = 0; i < tasks.size(); ++i) {
    const uint32_t skipped = tasks[i];
    run.outcome().AddSkipped();
    skip(skipped);
    // Only failure reaches the tasks behind, also when another one that they wait for was well.
    for (const uint32_t successor : run.image().successors(skipped)) {
      if (run.tasks().met(successor).Add(true) == MetDependencies::State::kPoisoned) {
        tasks.push_back(successor);
      }
    }
  }
  tasks.clear();
}

}  // namespace pto

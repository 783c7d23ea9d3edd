#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/engine/run/task_links.h"

namespace pto::engine {

class Run;

// Dependencies between tasks of different runs, which are the segments of an open run. RunLinker
// changes it.
struct RunLinks {
  // A task that waits for one of an earlier run, which had not ended when this run was accepted.
  struct Before {
    uint32_t task = 0;
    uint32_t before_task = 0;
    const Run* before = nullptr;  // may be gone: only compare it
  };

  // Tasks of other runs that wait for tasks of this run; nullptr if there can be none, as for most
  // runs.
  std::unique_ptr<TaskLinks> waiters;
  // For explanations. Immutable once the run is accepted.
  std::vector<Before> before;
  // Roots that wait for tasks of other runs, in ascending order. Their counters also count the
  // beginning of the run.
  std::vector<uint32_t> held_roots;
  // The number of tasks of other runs that this run waits for. Each is also counted in RunLife.
  std::atomic<int64_t> waiting{0};
};

}  // namespace pto::engine

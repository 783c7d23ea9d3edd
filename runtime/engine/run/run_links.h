#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/engine/run/task_links.h"

namespace pto {

class Run;

// Dependencies between the tasks of a run and those of other runs: of the segments of an open run.
// RunLinker changes it.
struct RunLinks {
  // A task that waits for one of an earlier run, which had not ended when this run was accepted.
  struct Before {
    uint32_t task = 0;
    uint32_t before_task = 0;
    const Run* before = nullptr;  // only to be compared
  };

  // Who waits for the run's tasks outside of it; nullptr for most runs, where nobody can.
  std::unique_ptr<TaskLinks> waiters;
  // For those who explain. Not changed once the run is accepted.
  std::vector<Before> before;
  // Roots that wait for tasks of other runs, rising. Their counters count the beginning too.
  std::vector<uint32_t> held_roots;
  // How many tasks of other runs are waited for; each is counted in the run's life too.
  std::atomic<int64_t> waiting{0};
};

}  // namespace pto

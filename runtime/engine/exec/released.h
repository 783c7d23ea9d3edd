#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace pto::engine {

// The tasks that an ended task has made ready, by what has to be done with them. Vectors that are
// used again and again, so that ending a task allocates nothing.
struct Released {
  std::vector<uint32_t> local;      // run next on this core; the last one is first
  std::vector<uint32_t> elsewhere;  // for the queues
  std::vector<uint32_t> special;    // control, joint and other tasks of the slow loop
  std::vector<uint32_t> skipped;    // not ready: a task before them has failed
  // Ended tasks, and whether they failed: tasks of other runs may wait for them.
  std::vector<std::pair<uint32_t, bool>> linked;
};

}  // namespace pto::engine

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/trace/run_trace.h"

namespace pto::trace {

// A part of a lane: a task while its kernels ran.
struct Slice {
  uint32_t task = 0;  // index in RunTrace::tasks
  uint32_t chip = 0;
  uint32_t lane = 0;  // index in Lanes::lanes
};

// One line of the picture. Its slices do not overlap.
struct Lane {
  enum class Kind : uint8_t { kCore, kSeveral, kControl, kUnfinished };
  uint32_t chip = 0;
  Kind kind = Kind::kCore;
  uint32_t core = 0;
  uint32_t row = 0;  // among lanes of the same kind or core
  std::string name;  // for example `AIV 3`
};

// Where each task is drawn. A task with one block on one chip is on the lane of its core. A task
// with several blocks is on a separate lane of its chip, or of each of its chips. A task that needs
// no core is on a lane for such tasks, and so is one that has not ended, because its core is
// unknown. Tasks that never ran are not drawn.
struct Lanes {
  std::vector<Lane> lanes;    // by chip, kind, core and row
  std::vector<Slice> slices;  // by start
};

Lanes PlaceTasks(const RunTrace& trace);

}  // namespace pto::trace

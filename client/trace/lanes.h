#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/trace/run_trace.h"

namespace pto::trace {

// A piece of a lane: a task while its kernels ran.
struct Slice {
  uint32_t task = 0;  // place in RunTrace::tasks
  uint32_t chip = 0;
  uint32_t lane = 0;  // place in Lanes::lanes
};

// One line of the picture. Slices on it do not overlap.
struct Lane {
  enum class Kind : uint8_t { kCore, kSeveral, kControl, kUnfinished };
  uint32_t chip = 0;
  Kind kind = Kind::kCore;
  uint32_t core = 0;
  uint32_t row = 0;  // among those of the same kind, or core
  std::string name;  // `AIV 3`
};

// Where each task is drawn. A task of one block on one chip is on its core's lane; one of several
// blocks is on a lane of its chip for such, and on each of its chips when there are several; one
// that needs no core is on a lane for those, and one that has not ended too: which core it has is
// not known. Tasks that never ran are nowhere.
struct Lanes {
  std::vector<Lane> lanes;    // by chip, kind, core and row
  std::vector<Slice> slices;  // by start
};

Lanes PlaceTasks(const RunTrace& trace);

}  // namespace pto::trace

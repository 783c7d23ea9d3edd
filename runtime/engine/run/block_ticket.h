#pragma once

#include <cstdint>

#include "kernels/pto_kernel.h"

namespace pto {

class Run;

// Blocks of a task, with the core on which they run one after the other.
struct BlockTicket {
  Run* run = nullptr;
  uint32_t task = 0;
  uint32_t block = 0;
  uint32_t block_end = 1;
  int32_t core = -1;
  pto_core kind = PTO_AIV;
  // Calls that a stopped run never makes; they count as ended together with this one.
  uint32_t abandoned = 0;
  uint32_t chip = 0;
  uint32_t member = 0;  // which of the task's chips that is
  uint32_t lane = 0;    // which core of its cluster: see pto_context
  uint32_t phase = 0;   // of a kernel that works in phases
  uint32_t phase_count = 0;
};

// Where one block of a gang is to run.
struct BlockPlace {
  uint32_t chip = 0;
  uint32_t member = 0;
  uint32_t block = 0;
  int32_t core = -1;
};

// Sees where blocks are placed and when they start, for tests. Called from engine threads, also
// under locks of the engine, into which it must not call. Thread-safe.
class PlacementTrace {
 public:
  virtual ~PlacementTrace() = default;
  // Blocks have their core. For all blocks of a gang this comes before the first of them starts.
  virtual void OnPlaced(const BlockTicket& ticket) = 0;
  // The ticket's first block is about to start.
  virtual void OnStart(const BlockTicket& ticket) = 0;
};

}  // namespace pto

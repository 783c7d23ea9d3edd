#pragma once

#include <cstdint>

#include "kernels/pto_kernel.h"

namespace pto::engine {

class Run;

// Blocks of a task, and the core that runs them one after the other.
struct BlockTicket {
  Run* run = nullptr;
  uint32_t task = 0;
  uint32_t block = 0;
  uint32_t block_end = 1;
  int32_t core = -1;
  pto_core kind = PTO_AIV;
  // Calls of a stopped run that are never made. They count as ended together with this one.
  uint32_t abandoned = 0;
  uint32_t chip = 0;
  uint32_t member = 0;        // index of the chip among those of the task
  uint32_t cluster_lane = 0;  // core within the cluster: see pto_context
  uint32_t phase = 0;         // for a kernel that works in phases
  uint32_t phase_count = 0;
};

// The place where one block of a gang runs.
struct BlockPlace {
  uint32_t chip = 0;
  uint32_t member = 0;
  uint32_t block = 0;
  int32_t core = -1;
};

// Records where blocks are placed and when they start, for tests. Called from engine threads, also
// with engine locks held, so it must not call the engine. Thread-safe.
class PlacementTrace {
 public:
  virtual ~PlacementTrace() = default;
  // Blocks have their core. Called for all blocks of a gang before the first of them starts.
  virtual void OnPlaced(const BlockTicket& ticket) = 0;
  // The ticket's first block is about to start.
  virtual void OnStart(const BlockTicket& ticket) = 0;
};

}  // namespace pto::engine

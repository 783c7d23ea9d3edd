#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/pto_kernel.h"
#include "runtime/engine/run.h"
#include "runtime/engine/wait_board.h"

namespace pto {

// Ready tasks of a run that wait for one kind of core of a chip.
struct ReadyNow {
  uint32_t chip = 0;
  pto_core kind = PTO_AIV;
  uint32_t count = 0;
  uint32_t first = 0;  // the next one
};

// A task that waits, wholly or in part.
struct WaitingTask {
  uint32_t task = 0;
  // Whether all that is left of it waits: nothing of it runs or is about to.
  bool whole = false;
  std::vector<WaitNote> waits;
};

// A run as it was seen. Keeps all that it refers to.
struct RunNow {
  std::shared_ptr<const Run> run;
  std::shared_ptr<const RunSlots> slots;
  std::shared_ptr<RunObserver> observer;  // may be nullptr
  RunState state = RunState::kQueued;
  bool begun = false;
  bool stopping = false;
  // Its tasks wait for those of other runs and the other way round: see RunLinker.
  bool linked = false;
  Run::Counts counts;
  // What was seen of its tasks belongs together; else they move too fast to say.
  bool steady = false;
  // Tasks that wait for something other than tasks or cores, in order.
  std::vector<WaitingTask> waiting;
  std::vector<ReadyNow> ready;
  uint32_t gangs_waiting = 0;
  // Whether something of it is neither waiting nor ready: it runs, or a thread is about to see to
  // it. With `steady` this is exact.
  bool moves = false;
  // For whoever puts runs in order beside the engine: the runs, by their places in EngineNow, for
  // which this one waits before it begins. Empty when that is not known.
  std::vector<size_t> behind;

  const GraphImage& image() const { return run->image(); }
};

// Who has a core.
struct CoreNow {
  static constexpr uint32_t kUnknownTask = 0xffffffff;
  uint32_t core = 0;
  pto_core kind = PTO_AIV;   // of a cluster: PTO_MIX, and the core is its cube core
  const Run* run = nullptr;  // only to be compared
  uint32_t task = kUnknownTask;
};

struct ChipNow {
  uint32_t clusters = 0;
  uint64_t memory_used_bytes = 0;
  uint64_t memory_total_bytes = 0;
  uint64_t ended_tasks = 0;
  uint64_t ready_tasks = 0;
  std::vector<CoreNow> cores;  // those that are taken
  // The gang that reserves cores; the run is nullptr when there is none.
  const Run* gang_run = nullptr;
  uint32_t gang_task = 0;
  uint32_t gang_have = 0;
  uint32_t gang_want = 0;
};

// An engine as it was seen, without a lock.
struct EngineNow {
  int64_t now_ns = 0;
  uint32_t executors = 0;
  uint32_t sleeping_executors = 0;
  std::vector<ChipNow> chips;
  std::vector<RunNow> runs;  // that have not ended; the one accepted last is first
};

}  // namespace pto

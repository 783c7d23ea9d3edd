#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/pto_kernel.h"
#include "runtime/engine/run/run.h"
#include "runtime/engine/signal/wait_board.h"

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
  // Whether a part of it has failed already.
  bool failed = false;
  std::vector<WaitNote> waits;
};

// A task that waits for a task of an earlier run: see RunLinker.
struct LinkNow {
  uint32_t task = 0;
  size_t before_run = 0;  // its place in EngineNow
  uint32_t before_task = 0;
};

// A signal that is waited for, or will be when a `wait` task starts.
struct WordNow {
  uint32_t dtype = 0;
  int64_t have = 0;
};

// The memory in a slot of a run. It is not kept: only its addresses are of use.
struct SlotNow {
  uint32_t slot = 0;  // its place among the image's
  const std::byte* begin = nullptr;
  uint64_t bytes = 0;
  uint64_t offset_bytes = 0;  // where in it the slot begins
  std::string name;           // may be empty

  bool Contains(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    const auto first = reinterpret_cast<uintptr_t>(begin);
    return at >= first && at - first < bytes;
  }
};

// A run as it was seen. Keeps it and its image, but not the memory that it works with.
struct RunNow {
  std::shared_ptr<const Run> run;
  // Those with words that somebody waits for, of whatever run; rising.
  std::vector<SlotNow> slots;
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
  // All of these tasks, unless there are too many of them or nobody waits for anything.
  bool lists_ready = false;
  std::vector<uint32_t> ready_tasks;
  // By task. Of a run that is linked: what has ended. And what can only fail: tasks that come after
  // a failed one and wait for others before they are skipped, and ready tasks of which a block has
  // failed; it says nothing of other tasks, and is empty when there are none. Both are empty while
  // nobody waits for anything.
  std::vector<bool> ended;
  std::vector<bool> poisoned;
  // Of a run that is linked.
  std::vector<LinkNow> links;
  // Gangs that wait for cores, tasks of other runs that are waited for, and all things together
  // that keep the run from ending.
  uint32_t gangs_waiting = 0;
  int64_t links_waiting = 0;
  int64_t outstanding = 0;
  // Whether something of it is neither waiting nor ready: it runs, or a thread is about to see to
  // it. With `steady` this is exact.
  bool moves = false;
  // For whoever puts runs in order beside the engine: the runs, by their places in EngineNow, for
  // which this one waits before it begins; or, of one that is linked, what comes next of its whole.
  // Empty when that is not known.
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
  // Ready tasks that wait for the end of this one, to have its cores; and the next of them.
  uint32_t followers = 0;
  uint32_t next_follower = kUnknownTask;
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
  // Words that somebody waits for, or will wait for, by their addresses; those that are in no slot
  // of a run are left out.
  absl::flat_hash_map<const void*, WordNow> words;
};

}  // namespace pto

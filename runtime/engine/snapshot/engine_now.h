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

namespace pto::engine {

// Ready tasks of a run that wait for one kind of core of a chip.
struct ReadyNow {
  uint32_t chip = 0;
  pto_core kind = PTO_AIV;
  uint32_t count = 0;
  uint32_t first = 0;  // the next one
};

// A task that waits, entirely or in part.
struct WaitingTask {
  uint32_t task = 0;
  // Whether every remaining block waits: none runs or is about to run.
  bool whole = false;
  // Whether a block has failed already.
  bool failed = false;
  std::vector<WaitNote> waits;
};

// A task that waits for a task of an earlier run: see RunLinker.
struct LinkNow {
  uint32_t task = 0;
  size_t before_run = 0;  // its index in EngineNow
  uint32_t before_task = 0;
};

// A signal that a task waits for, or that a `wait` task will wait for.
struct WordNow {
  uint32_t dtype = 0;
  int64_t have = 0;
};

// The memory in a slot of a run. Not kept alive: only the addresses are valid.
struct SlotNow {
  uint32_t slot = 0;  // its index in the image
  const std::byte* begin = nullptr;
  uint64_t bytes = 0;
  uint64_t offset_bytes = 0;  // where the slot begins in it
  std::string name;           // may be empty

  bool Contains(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    const auto first = reinterpret_cast<uintptr_t>(begin);
    return at >= first && at - first < bytes;
  }
};

// A run in the snapshot. Keeps the run and its image alive, but not its memory.
struct RunNow {
  std::shared_ptr<const Run> run;
  // The slots that contain words which any run waits for, ascending.
  std::vector<SlotNow> slots;
  std::shared_ptr<RunObserver> observer;  // may be nullptr
  RunState state = RunState::kQueued;
  bool begun = false;
  bool stopping = false;
  // Its tasks have dependencies to tasks of other runs: see RunLinker.
  bool linked = false;
  Run::Counts counts;
  // Whether the state of its tasks is consistent; otherwise they changed too fast.
  bool steady = false;
  // Tasks that wait for something other than tasks or cores, in order.
  std::vector<WaitingTask> waiting;
  std::vector<ReadyNow> ready;
  // All ready tasks. Not listed if there are too many or nothing waits.
  bool lists_ready = false;
  std::vector<uint32_t> ready_tasks;
  // By task. `ended` (only for a linked run): the task has ended. `poisoned`: the task can only
  // fail: it is behind a failed task and still waits for others, or it is ready and one of its
  // blocks has failed. `poisoned` says nothing about other tasks and is empty if there are none.
  // Both are empty while nothing waits.
  std::vector<bool> ended;
  std::vector<bool> poisoned;
  // For a linked run.
  std::vector<LinkNow> links;
  // Gangs that wait for cores, tasks of other runs that it waits for, and the total count that
  // keeps the run from ending.
  uint32_t gangs_waiting = 0;
  int64_t links_waiting = 0;
  int64_t outstanding = 0;
  // Whether some task is neither waiting nor ready: it runs, or a thread is about to handle it.
  // Exact if `steady`.
  bool moves = false;
  // Filled in by code that orders runs: the indices in EngineNow of the runs that this run, or for
  // a linked run the next segment of its whole, waits for before it begins. Empty if unknown.
  std::vector<size_t> behind;

  const GraphImage& image() const { return run->image(); }
};

// The owner of a core.
struct CoreNow {
  static constexpr uint32_t kUnknownTask = 0xffffffff;
  uint32_t core = 0;
  pto_core kind = PTO_AIV;   // for a cluster: PTO_MIX, and its cube core
  const Run* run = nullptr;  // only compare it
  uint32_t task = kUnknownTask;
  bool posted = false;  // the block runs on a lane, without a thread of the engine
  // The number of ready tasks that wait to get its cores, and the next of them.
  uint32_t followers = 0;
  uint32_t next_follower = kUnknownTask;
};

struct ChipNow {
  uint32_t clusters = 0;
  uint64_t memory_used_bytes = 0;
  uint64_t memory_total_bytes = 0;
  uint64_t ended_tasks = 0;
  uint64_t ready_tasks = 0;
  std::vector<CoreNow> cores;  // cores that are taken
  // The gang that reserves cores; nullptr: none.
  const Run* gang_run = nullptr;
  uint32_t gang_task = 0;
  uint32_t gang_have = 0;
  uint32_t gang_want = 0;
};

// A snapshot of an engine, taken without a lock.
struct EngineNow {
  int64_t now_ns = 0;
  uint32_t executors = 0;
  uint32_t sleeping_executors = 0;  // of both kinds
  uint32_t spare_executors = 0;
  // Of both kinds, those that kernels hold for long.
  uint32_t held_executors = 0;
  std::vector<ChipNow> chips;
  std::vector<RunNow> runs;  // that have not ended; the newest first
  // Words that tasks wait for or will wait for, by address. Words outside the slots of all runs are
  // left out.
  absl::flat_hash_map<const void*, WordNow> words;
};

}  // namespace pto::engine

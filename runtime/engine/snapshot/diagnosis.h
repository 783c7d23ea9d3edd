#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/engine/snapshot/blockage.h"
#include "runtime/engine/snapshot/engine_now.h"

namespace pto::engine {

// The summary of a run. The numbers are those of pto.v1.ExplainRunResponse.
enum class Verdict {
  kProgressing = 1,
  kWaitingForCapacity,
  kWaitingForNotification,
  kStalled,
  kDeadlocked,
  kEnded,
  kWaitingForTurn,
  kWaitingForTasks,
};

// Why one task does not continue.
struct Obstacle {
  enum class Kind {
    kSignal = 1,    // a word that does not satisfy the comparison
    kCopy,          // a copy that has not ended
    kBarrier,       // other blocks of its own task
    kCores,         // it is ready but has no core
    kReservation,   // it is a gang and lacks cores
    kPredecessors,  // tasks before it
    kKernel,        // its kernel has not returned
    kThread,        // it is ready and a core is free, but no thread takes it
    kTurn,          // its run has not begun: it is behind others
  };
  Kind kind = Kind::kSignal;
  uint32_t task = 0;
  uint32_t block = 0;
  // Its kernel has returned; the end of the task waits.
  bool deferred = false;
  uint32_t chip = 0;
  pto_core core_kind = PTO_AIV;
  int32_t core = -1;  // the core that it has
  std::string lane;   // for kKernel: the lane that runs it; empty: the engine
  // The actual and the required amount: the value of a signal, cores, blocks at the barrier, bytes
  // of a copy. `has_have`: whether the actual one is known.
  bool has_have = false;
  int64_t have = 0;
  int64_t want = 0;
  // For a signal: the comparison and the location.
  uint32_t compare = 0;
  absl::optional<uint32_t> slot;
  std::string slot_name;  // the name of its memory; may be empty
  uint64_t element = 0;   // in that memory, counted in words of its type
  // The number of tasks that this represents: those in the same queue, or behind the same task.
  uint64_t count = 1;
  // For kCores: it gets the cores of the peer when that has ended.
  bool follows = false;
  // For kCores and kThread: how many of the free cores a gang has reserved, and which gang.
  uint32_t reserved = 0;
  absl::optional<TaskPlace> reserved_for;
  // For kSignal and kCores: the task will wait once the tasks before it have ended.
  bool ahead = false;
  // Times of the engine's clock; 0: unknown.
  int64_t since_ns = 0;
  int64_t until_ns = 0;  // its deadline
  // Whether a queued or running task can end this.
  bool can_end = true;
  // Some of the tasks that can end it, or that it waits for.
  std::vector<TaskPlace> peers;
  // If nothing can: a cycle of waiting tasks, some tasks that would end it but are held up, and
  // some that could have ended it but have ended already.
  std::vector<TaskPlace> cycle;
  std::vector<HeldSender> held;
  std::vector<TaskPlace> ended;
  // For kTurn: the indices of the runs that go first.
  std::vector<size_t> runs;
  // For a wait: its number in the Situation.
  absl::optional<uint32_t> wait;
};

struct RunDiagnosis {
  Verdict verdict = Verdict::kProgressing;
  // First those that nothing can end, then by age; then those that wait for cores or other tasks.
  std::vector<Obstacle> obstacles;
  uint64_t more = 0;  // number of obstacles left out
};

// Explains the runs of an engine snapshot. The EngineNow must outlive it. Not thread-safe.
class Diagnosis {
 public:
  explicit Diagnosis(const EngineNow& now) : now_(now), blockage_(now) {}

  // Explains one run, by its index. `idle_ns`: how long nothing of it has ended or begun, as far as
  // known; `stall_ns`: the idle time from which it counts as stalled.
  RunDiagnosis Explain(size_t run, int64_t idle_ns, int64_t stall_ns, size_t max_obstacles) const;

  const Blockage& blockage() const { return blockage_; }

 private:
  void AddWaits(size_t run, std::vector<Obstacle>* obstacles) const;
  // Tasks that have not started and will never get cores, or will wait forever.
  void AddAhead(size_t run, std::vector<Obstacle>* obstacles) const;
  // Names the tasks that hold the cores which the obstacle needs.
  void AddHolders(Obstacle* obstacle) const;
  Obstacle OfWait(uint32_t wait) const;
  Obstacle OfBarrier(const Situation::Wait& wait, Obstacle obstacle) const;
  // Adds the tasks that prevent a signal from being sent.
  void Blame(size_t run, Obstacle* obstacle) const;
  void AddReady(size_t run, int64_t idle_ns, std::vector<Obstacle>* obstacles) const;
  // Ready tasks that will get the cores of another task.
  void AddFollowers(size_t run, std::vector<Obstacle>* obstacles) const;
  // The chip of a gang that has the fewest free cores for it.
  uint32_t ScarcestChip(const GraphImage& image, uint32_t gang) const;
  void AddGangs(size_t run, std::vector<Obstacle>* obstacles) const;
  void AddRunning(size_t run, std::vector<Obstacle>* obstacles) const;
  // Returns the number of such tasks.
  uint64_t AddPredecessors(size_t run, size_t room, std::vector<Obstacle>* obstacles) const;
  Verdict VerdictOf(size_t run, int64_t idle_ns, int64_t stall_ns,
                    const std::vector<Obstacle>& obstacles) const;
  // Whether all engine threads are in kernels.
  bool ThreadsAreBusy() const;
  uint32_t FreeCores(uint32_t chip, pto_core kind) const;
  // Sets how many of the free cores a gang has reserved.
  void AddReserved(Obstacle* obstacle) const;

  const EngineNow& now_;
  const Blockage blockage_;
};

}  // namespace pto::engine

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/engine/snapshot/blockage.h"
#include "runtime/engine/snapshot/engine_now.h"

namespace pto {

// What it comes to. Numbers are those of pto.v1.ExplainRunResponse.
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

// Why one task does not go on.
struct Obstacle {
  enum class Kind {
    kSignal = 1,    // a word that does not compare as it should
    kCopy,          // a copy that is not over
    kBarrier,       // other blocks of its own task
    kCores,         // it is ready and has no core
    kReservation,   // it is a gang and has not all its cores
    kPredecessors,  // tasks before it
    kKernel,        // its kernel has not returned
    kThread,        // it is ready, and there is a core, but no thread takes it
    kTurn,          // its run has not begun: it is behind others
  };
  Kind kind = Kind::kSignal;
  uint32_t task = 0;
  uint32_t block = 0;
  // Its kernel has returned; only its end waits.
  bool deferred = false;
  uint32_t chip = 0;
  pto_core core_kind = PTO_AIV;
  int32_t core = -1;  // that it has
  // What there is and what is needed: a signal's value, cores, blocks at the barrier, bytes of a
  // copy. `has_have`: whether that is known.
  bool has_have = false;
  int64_t have = 0;
  int64_t want = 0;
  // Of a signal: how it is compared, and where it is.
  uint32_t compare = 0;
  absl::optional<uint32_t> slot;
  std::string slot_name;  // what its memory is called; may be empty
  uint64_t element = 0;   // in that memory, counted in words of its type
  // How many tasks this stands for: those of the same queue, or behind the same task.
  uint64_t count = 1;
  // Of kCores: it waits for the cores of the peer, and gets them when that has ended.
  bool follows = false;
  // Of kCores and kThread: how many of the free cores a gang has reserved, and which one.
  uint32_t reserved = 0;
  absl::optional<TaskPlace> reserved_for;
  // Of kSignal and kCores: tasks before it have not ended; it will wait when they have.
  bool ahead = false;
  // Times of the engine's clock; 0 when not known.
  int64_t since_ns = 0;
  int64_t until_ns = 0;  // when it gives up
  // Whether something that is queued or running could end this.
  bool can_end = true;
  // Those that could, or that are waited for; a few.
  std::vector<TaskPlace> peers;
  // When nothing can: tasks that wait for each other; tasks that would end it but are held up, and
  // tasks that could have ended it but have ended before; a few of each.
  std::vector<TaskPlace> cycle;
  std::vector<HeldSender> held;
  std::vector<TaskPlace> ended;
  // Of kTurn: the runs that go first, by their places.
  std::vector<size_t> runs;
  // The wait itself, if it is one: its number in the Situation.
  absl::optional<uint32_t> wait;
};

struct RunDiagnosis {
  Verdict verdict = Verdict::kProgressing;
  // What nothing can end first, then the oldest; then what waits for cores or other tasks.
  std::vector<Obstacle> obstacles;
  uint64_t more = 0;  // that were left out
};

// Explains the runs of an engine as it was seen. Lives as long as the EngineNow; not thread-safe.
class Diagnosis {
 public:
  explicit Diagnosis(const EngineNow& now) : now_(now), blockage_(now) {}

  // Of one run, by its place. `idle_ns`: for how long nothing of it has ended or begun, as far as
  // that is known; `stall_ns`: how much of that is a stall.
  RunDiagnosis Explain(size_t run, int64_t idle_ns, int64_t stall_ns, size_t max_obstacles) const;

  const Blockage& blockage() const { return blockage_; }

 private:
  void AddWaits(size_t run, std::vector<Obstacle>* obstacles) const;
  // Tasks that have not started, and will never get cores or wait for ever when they do.
  void AddAhead(size_t run, std::vector<Obstacle>* obstacles) const;
  // Names the tasks that hold the cores that the obstacle needs.
  void AddHolders(Obstacle* obstacle) const;
  Obstacle OfWait(uint32_t wait) const;
  Obstacle OfBarrier(const Situation::Wait& wait, Obstacle obstacle) const;
  // Adds who is to blame for a signal that nobody sends.
  void Blame(size_t run, Obstacle* obstacle) const;
  void AddReady(size_t run, int64_t idle_ns, std::vector<Obstacle>* obstacles) const;
  // Ready tasks that are to have the cores of another one.
  void AddFollowers(size_t run, std::vector<Obstacle>* obstacles) const;
  // Of the chips of a gang the one with the fewest free cores for it.
  uint32_t ScarcestChip(const GraphImage& image, uint32_t gang) const;
  void AddGangs(size_t run, std::vector<Obstacle>* obstacles) const;
  void AddRunning(size_t run, std::vector<Obstacle>* obstacles) const;
  // Returns how many there are.
  uint64_t AddPredecessors(size_t run, size_t room, std::vector<Obstacle>* obstacles) const;
  Verdict VerdictOf(size_t run, int64_t idle_ns, int64_t stall_ns,
                    const std::vector<Obstacle>& obstacles) const;
  // Whether all executors are in kernels.
  bool ThreadsAreBusy() const;
  uint32_t FreeCores(uint32_t chip, pto_core kind) const;
  // Says how many of the free cores a gang has reserved.
  void AddReserved(Obstacle* obstacle) const;

  const EngineNow& now_;
  const Blockage blockage_;
};

}  // namespace pto

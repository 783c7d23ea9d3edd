#pragma once

#include <cstdint>
#include <string>

namespace pto::daemon {

// The observable state of a chip at one moment.
struct ChipSign {
  // How long the chip's queue has not answered a query; 0 if it has. Otherwise the other fields are
  // those of its last answer.
  int64_t silent_ns = 0;
  uint64_t ended_tasks = 0;
  uint64_t ready_tasks = 0;
  // Gangs that need cores of this chip, and perhaps of others. While one waits, other tasks may
  // have to wait behind it.
  uint64_t waiting_gangs = 0;
  uint32_t busy_cores = 0;
  // Whether an executor is idle.
  bool thread_free = false;
  // The started runs on the chip, and how many of them were told to stop.
  uint32_t started_runs = 0;
  uint32_t stopping_runs = 0;
};

// Distinguishes a chip that hangs from one that is idle, busy or waiting. If in doubt, it does not
// hang.
//
// It hangs if one of these holds for `stall_ns` without interruption, and no task ends meanwhile:
//   - its queue does not answer: a thread is stuck in it;
//   - tasks but no gangs are ready, no core is taken and a thread is free, but no thread takes
//     the tasks;
//   - cores are taken, but only by runs that were told to stop, by a client or by their timeout:
//     a kernel does not return. Waits end when they are told to.
// So a kernel that computes for a long time is not a hang, nor is a wait for a signal that nobody
// sends: ExplainRun reports these. Only the timeout of a run counts here, not that of a task.
//
// The time between two observations is capped at the expected interval, so that a process that was
// stopped for a while does not appear to hang. Not thread-safe.
class ChipStall {
 public:
  // With `stall_ns` 0, the chip never hangs.
  ChipStall(int64_t stall_ns, int64_t look_ns) : stall_ns_(stall_ns), look_ns_(look_ns) {}

  // What is wrong with the chip; empty if nothing is.
  std::string See(const ChipSign& sign, int64_t now_ns);
  // Starts afresh.
  void Forget() { last_ns_ = 0; }

 private:
  enum class Kind { kNone, kSilent, kNotTaken, kNotStopping };
  static Kind KindOf(const ChipSign& sign);

  const int64_t stall_ns_;
  const int64_t look_ns_;
  int64_t last_ns_ = 0;  // of the last observation; 0: none
  uint64_t ended_tasks_ = 0;
  Kind kind_ = Kind::kNone;
  int64_t for_ns_ = 0;  // how long the condition has held
};

}  // namespace pto::daemon

#pragma once

#include <cstdint>
#include <string>

namespace pto {

// What can be seen of a chip from outside at one moment.
struct ChipSign {
  // For how long the chip's queue has not answered who asked for the rest; 0 when it has. Then the
  // rest is what it said the last time.
  int64_t silent_ns = 0;
  uint64_t ended_tasks = 0;
  uint64_t ready_tasks = 0;
  // Gangs that need cores of it, and perhaps of other chips. While one waits, others may have to
  // wait behind it.
  uint64_t waiting_gangs = 0;
  uint32_t busy_cores = 0;
  // Whether an executor has nothing to do.
  bool thread_free = false;
  // Of the runs on the chip that have started: how many there are, and how many were told to stop.
  uint32_t started_runs = 0;
  uint32_t stopping_runs = 0;
};

// Tells a chip that hangs from one that is idle, busy or waits. When in doubt it does not hang.
//
// It hangs when one of these holds for `stall_ns` without a break, and no task ends meanwhile:
//   - its queue does not answer: a thread has stopped in it;
//   - tasks are ready and no gangs, none of its cores is taken and a thread is free, but none takes
//     them;
//   - cores are taken, but only by runs that were told to stop, by a client or by their timeout:
//     a kernel does not return. Waits end when they are told to.
// So a kernel that computes for long is no hang, nor a wait for a signal that nobody sends: of
// these ExplainRun tells. A task's own timeout is not seen here, only that of its run.
//
// The time between two looks counts only as far as looks should be apart, so that a process that
// was stopped for a while is not taken for one that hangs. Not thread-safe.
class ChipStall {
 public:
  // `stall_ns` of 0: it never hangs.
  ChipStall(int64_t stall_ns, int64_t look_ns) : stall_ns_(stall_ns), look_ns_(look_ns) {}

  // What is wrong with the chip, in words; empty when nothing is.
  std::string See(const ChipSign& sign, int64_t now_ns);
  // Begins anew.
  void Forget() { last_ns_ = 0; }

 private:
  enum class Kind { kNone, kSilent, kNotTaken, kNotStopping };
  static Kind KindOf(const ChipSign& sign);

  const int64_t stall_ns_;
  const int64_t look_ns_;
  int64_t last_ns_ = 0;  // of the last look; 0: there was none
  uint64_t ended_tasks_ = 0;
  Kind kind_ = Kind::kNone;
  int64_t for_ns_ = 0;  // how long it has been so
};

}  // namespace pto

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/chip/chip_health.h"
#include "daemon/explain/serial_thread.h"
#include "daemon/node/node.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Watches the chips of a node: reports their signs to ChipHealth; when a chip becomes faulted or
// recovers, reports that and fails the runs that use it.
//
// Querying the engine may block on its locks, and a thread stuck with such a lock is one of the
// faults to detect. So one thread queries, and another watches it; a third thread stops runs, which
// may block too. Thread-safe; the node outlives it.
class ChipMonitor {
 public:
  // Called when a chip becomes usable or unusable.
  using Tell = std::function<void(uint32_t chip, bool usable)>;

  ChipMonitor(Node& node, Tell tell);
  ~ChipMonitor() { Stop(); }
  ChipMonitor(const ChipMonitor&) = delete;
  ChipMonitor& operator=(const ChipMonitor&) = delete;

  void Stop();

 private:
  struct Sample {
    ChipSign sign;
    int64_t asked_ns = 0;  // time of the last query
    int64_t taken_ns = 0;  // time of its answer
    bool asking = false;
  };

  // ---- on the querying thread
  std::chrono::nanoseconds Ask();
  void CountRuns(std::vector<ChipSign>* signs) const;

  // ---- on the stopping thread Fails the runs on unusable chips.
  void StopRuns();

  // ---- on the watching thread
  std::chrono::nanoseconds Watch();
  ChipSign SignOf(uint32_t chip, int64_t now_ns) const;
  absl::Duration Interval() const;

  Node& node_;
  const Tell tell_;
  // Used by the watching thread: the reported state and the seen faults of each chip.
  std::vector<bool> usable_;
  std::vector<uint64_t> faults_;
  mutable Mutex mutex_;
  std::vector<Sample> samples_ ABSL_GUARDED_BY(mutex_);
  bool stop_posted_ ABSL_GUARDED_BY(mutex_) = false;
  // In this order: the last thread gives work to the one before.
  SerialThread asks_;
  SerialThread stops_;
  SerialThread watches_;
};

}  // namespace pto::daemon

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/chip/chip_health.h"
#include "daemon/explain/serial_thread.h"
#include "daemon/node/node.h"
#include "runtime/base/mutex.h"

namespace pto {

// Watches the chips of a node: shows their signs to ChipHealth, and when one is faulted or comes
// back says so, and fails the runs that use it.
//
// What asks the engine may have to wait for its locks, and a thread that has stopped with one of
// them is what is looked for. So one thread asks, and another one watches that; a third one stops
// runs, for which it may have to wait, too. Thread-safe; the node outlives it.
class ChipMonitor {
 public:
  // Is told when it changes whether a chip can be used.
  using Tell = std::function<void(uint32_t chip, bool usable)>;

  ChipMonitor(Node& node, Tell tell);
  ~ChipMonitor() { Stop(); }
  ChipMonitor(const ChipMonitor&) = delete;
  ChipMonitor& operator=(const ChipMonitor&) = delete;

  void Stop();

 private:
  struct Sample {
    ChipSign sign;
    int64_t asked_ns = 0;  // when it was last asked for
    int64_t taken_ns = 0;  // when that was answered
    bool asking = false;
  };

  // ---- on the thread that asks
  std::chrono::nanoseconds Ask();
  void CountRuns(std::vector<ChipSign>* signs) const;

  // ---- on the one that stops
  // Fails the runs on chips that cannot be used.
  void StopRuns();

  // ---- on the one that watches
  std::chrono::nanoseconds Watch();
  ChipSign SignOf(uint32_t chip, int64_t now_ns) const;
  absl::Duration Interval() const;

  Node& node_;
  const Tell tell_;
  // Of the thread that watches: what was told, and faults that were seen, of each chip.
  std::vector<bool> usable_;
  std::vector<uint64_t> faults_;
  mutable Mutex mutex_;
  std::vector<Sample> samples_ ABSL_GUARDED_BY(mutex_);
  bool stop_posted_ ABSL_GUARDED_BY(mutex_) = false;
  // In this order: the last one gives work to the one before.
  SerialThread asks_;
  SerialThread stops_;
  SerialThread watches_;
};

}  // namespace pto

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/engine/record_block.h"

namespace pto {

// Writes down the ends of the tasks that one worker runs, in ticks, and turns them into times
// some hundreds at once. Not thread-safe.
class TaskRecorder {
 public:
  static constexpr size_t kCapacity = 512;

  // When a task started and ended.
  struct Stretch {
    uint64_t start_ticks = 0;
    uint64_t end_ticks = 0;
    // If it started elsewhere: in ns after the run was accepted. Else -1.
    int64_t start_ns = -1;
  };

  // Begins a stretch of time in which both the clock and the ticks are known at the ends. Nothing
  // is written down at that moment.
  void Begin(int64_t now_ns, uint64_t now_ticks) {
    base_ns_ = now_ns;
    base_ticks_ = now_ticks;
  }
  int64_t base_ns() const { return base_ns_; }

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kCapacity; }

  // Not when it is full.
  void Add(uint32_t task, uint32_t chip, uint32_t core, TaskOutcome outcome,
           const Stretch& stretch) {
    if (records_.empty()) records_.resize(kCapacity);
    // Field by field: a record that is made elsewhere and copied waits for its own stores.
    TaskRecord& record = records_[count_++];
    record.task = task;
    record.core = core;
    record.chip = static_cast<uint16_t>(chip);
    record.outcome = outcome;
    record.start_ns = stretch.start_ns >= 0 ? ~stretch.start_ns : SinceBase(stretch.start_ticks);
    record.end_ns = SinceBase(stretch.end_ticks);
  }

  // Ends the stretch, begins the next and returns what was added, with times after `accepted_ns`.
  // Valid until something is added.
  absl::Span<const TaskRecord> Finish(int64_t now_ns, uint64_t now_ticks, int64_t accepted_ns);

 private:
  int64_t SinceBase(uint64_t ticks) const {
    return std::max<int64_t>(static_cast<int64_t>(ticks - base_ticks_), 0);
  }

  int64_t base_ns_ = 0;
  uint64_t base_ticks_ = 0;
  // Until they are finished, their times are ticks since the base; a start that is known in ns is
  // complemented, and so negative.
  std::vector<TaskRecord> records_;
  size_t count_ = 0;
};

}  // namespace pto

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/engine/run/record_block.h"

namespace pto {

// Writes down the ends of the tasks that one worker runs, in ticks, and turns them into times
// some hundreds at once. Tasks that follow each other on one core make a row, of which only some
// ends are written down. Not thread-safe.
class TaskRecorder {
 public:
  static constexpr size_t kCapacity = 512;
  static constexpr size_t kRowCapacity = 1024;

  // When a task started and ended.
  struct Stretch {
    uint64_t start_ticks = 0;
    uint64_t end_ticks = 0;
    // If it started elsewhere: in ns after the run was accepted. Else -1.
    int64_t start_ns = -1;
    // So long before its end its kernels had returned.
    int64_t deferred_ns = 0;
  };

  // Begins a stretch of time in which both the clock and the ticks are known at the ends. Nothing
  // is written down at that moment.
  void Begin(int64_t now_ns, uint64_t now_ticks) {
    base_ns_ = now_ns;
    base_ticks_ = now_ticks;
  }
  int64_t base_ns() const { return base_ns_; }

  bool empty() const { return count_ == 0 && row_count_ == 0; }
  // Whether there is no room for another one, in the row or beside it.
  bool full() const { return count_ == kCapacity || row_full(); }

  // ---- the row: comes behind what was added otherwise
  bool has_row() const { return row_count_ > 0; }
  bool row_full() const { return row_count_ == kRowCapacity; }
  // A task has ended well. Not when it is full.
  void AddToRow(uint32_t task) { row_tasks_[row_count_++] = task; }
  // How many have been added since the last mark.
  uint32_t unmarked() const {
    return row_count_ - (row_marks_.empty() ? 0 : row_marks_.back().end);
  }
  // These took this time together, one after the other.
  void MarkRow(uint64_t start_ticks, uint64_t end_ticks) {
    if (unmarked() == 0) return;
    row_marks_.push_back({row_count_, SinceBase(start_ticks), SinceBase(end_ticks)});
  }

  // Makes records of the row, all of which is marked, so that others can follow. Returns false,
  // and does nothing, when there is no room for them and one more.
  bool EndRow(uint32_t chip, uint32_t core);

  // ---- any other task, while there is no row. Not when it is full.
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
    record.deferred_ns = stretch.deferred_ns;
  }

  // What was added, the row behind the records. Valid until something is added.
  struct Written {
    absl::Span<const TaskRecord> records;
    absl::Span<const uint32_t> row_tasks;
    absl::Span<const TaskRow::Mark> row_marks;
  };
  // Ends the stretch, begins the next and returns what was added, with times after `accepted_ns`.
  // All of the row is marked.
  Written Finish(int64_t now_ns, uint64_t now_ticks, int64_t accepted_ns);

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
  uint32_t row_count_ = 0;
  std::vector<TaskRow::Mark> row_marks_;       // in ticks since the base
  std::vector<TaskRow::Mark> finished_marks_;  // in ns
  // Last, and not initialised: all else is on a line or two of the cache.
  uint32_t row_tasks_[kRowCapacity];
};

}  // namespace pto

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/engine/run/record_block.h"

namespace pto::engine {

// Records the ends of the tasks that one worker runs, in ticks, and converts several hundred to
// times at once. Tasks that follow one another on one core form a row, for which only some times
// are recorded. Not thread-safe.
class TaskRecorder {
 public:
  static constexpr size_t kCapacity = 512;
  static constexpr size_t kRowCapacity = 1024;

  // The start and end of a task.
  struct Stretch {
    uint64_t start_ticks = 0;
    uint64_t end_ticks = 0;
    // If it started on another thread: the start in ns after the run was accepted. Otherwise -1.
    int64_t start_ns = -1;
    // The time from the return of its last kernel to its end.
    int64_t deferred_ns = 0;
  };

  // Begins an interval whose ends are known both by the clock and in ticks. The recorder must be
  // empty.
  void Begin(int64_t now_ns, uint64_t now_ticks) {
    base_ns_ = now_ns;
    base_ticks_ = now_ticks;
  }
  int64_t base_ns() const { return base_ns_; }

  bool empty() const { return count_ == 0 && row_count_ == 0; }
  // Whether there is no room for another task, in the row or in the records.
  bool full() const { return count_ == kCapacity || row_full(); }

  // ---- the row, which follows the records
  bool has_row() const { return row_count_ > 0; }
  bool row_full() const { return row_count_ == kRowCapacity; }
  // A task has succeeded. The row must not be full.
  void AddToRow(uint32_t task) { row_tasks_[row_count_++] = task; }
  // The number of tasks added since the last mark.
  uint32_t unmarked() const {
    return row_count_ - (row_marks_.empty() ? 0 : row_marks_.back().end);
  }
  // The unmarked tasks took this time together, one after the other.
  void MarkRow(uint64_t start_ticks, uint64_t end_ticks) {
    if (unmarked() == 0) return;
    row_marks_.push_back({row_count_, SinceBase(start_ticks), SinceBase(end_ticks)});
  }

  // Converts the row, which must be completely marked, to records, so that others can follow.
  // Returns false and changes nothing if there is no room for them and one more.
  bool EndRow(uint32_t chip, uint32_t core);

  // ---- any other task. There must be no row, and it must not be full.
  void Add(uint32_t task, uint32_t chip, uint32_t core, TaskOutcome outcome,
           const Stretch& stretch) {
    if (records_.empty()) records_.resize(kCapacity);
    // Write each field in place: copying a record would stall on its own stores.
    TaskRecord& record = records_[count_++];
    record.task = task;
    record.core = core;
    record.chip = static_cast<uint16_t>(chip);
    record.outcome = outcome;
    record.start_ns = stretch.start_ns >= 0 ? ~stretch.start_ns : SinceBase(stretch.start_ticks);
    record.end_ns = SinceBase(stretch.end_ticks);
    record.deferred_ns = stretch.deferred_ns;
  }

  // What was added: the records, then the row. Valid until something is added.
  struct Written {
    absl::Span<const TaskRecord> records;
    absl::Span<const uint32_t> row_tasks;
    absl::Span<const TaskRow::Mark> row_marks;
  };
  // Ends the interval, begins the next one and returns what was added, with times relative to
  // `accepted_ns`. The row must be completely marked.
  Written Finish(int64_t now_ns, uint64_t now_ticks, int64_t accepted_ns);

 private:
  int64_t SinceBase(uint64_t ticks) const {
    return std::max<int64_t>(static_cast<int64_t>(ticks - base_ticks_), 0);
  }

  int64_t base_ns_ = 0;
  uint64_t base_ticks_ = 0;
  // Until Finish, times are ticks since the base. A start that is known in ns is stored as its
  // complement, which is negative.
  std::vector<TaskRecord> records_;
  size_t count_ = 0;
  uint32_t row_count_ = 0;
  std::vector<TaskRow::Mark> row_marks_;       // in ticks since the base
  std::vector<TaskRow::Mark> finished_marks_;  // in ns
  // Last and not initialised, so that all other members share one or two cache lines.
  uint32_t row_tasks_[kRowCapacity];
};

}  // namespace pto::engine

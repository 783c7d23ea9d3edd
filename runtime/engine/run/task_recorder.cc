#include "runtime/engine/run/task_recorder.h"

#include <utility>

#include "runtime/base/ticks.h"

namespace pto::engine {

bool TaskRecorder::EndRow(uint32_t chip, uint32_t core) {
  if (count_ + row_count_ >= kCapacity) return false;
  uint32_t next = 0;
  for (const TaskRow::Mark& mark : row_marks_) {
    const int64_t count = mark.end - next;
    const int64_t took = mark.end_ns - mark.start_ns;
    for (int64_t i = 0; i < count; ++i) {
      const auto ticks = [&](int64_t part) {
        return base_ticks_ + static_cast<uint64_t>(mark.start_ns + took * part / count);
      };
      Add(row_tasks_[next++], chip, core, TaskOutcome::kDone, {ticks(i), ticks(i + 1)});
    }
  }
  row_marks_.clear();
  row_count_ = 0;
  return true;
}

TaskRecorder::Written TaskRecorder::Finish(int64_t now_ns, uint64_t now_ticks,
                                           int64_t accepted_ns) {
  const TickScale scale(base_ns_ - accepted_ns, 0, now_ns - accepted_ns, now_ticks - base_ticks_);
  const auto nanos = [&](int64_t ticks) { return scale.ToNanos(static_cast<uint64_t>(ticks)); };
  const size_t count = std::exchange(count_, 0);
  for (size_t i = 0; i < count; ++i) {
    TaskRecord& record = records_[i];
    record.start_ns = record.start_ns < 0 ? ~record.start_ns : nanos(record.start_ns);
    record.end_ns = nanos(record.end_ns);
  }
  finished_marks_.swap(row_marks_);
  row_marks_.clear();
  for (TaskRow::Mark& mark : finished_marks_) {
    mark.start_ns = nanos(mark.start_ns);
    mark.end_ns = nanos(mark.end_ns);
  }
  const uint32_t row_count = std::exchange(row_count_, 0);
  Begin(now_ns, now_ticks);
  return {absl::MakeConstSpan(records_).first(count), absl::MakeConstSpan(row_tasks_, row_count),
          finished_marks_};
}

}  // namespace pto::engine

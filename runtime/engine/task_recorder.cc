#include "runtime/engine/task_recorder.h"

#include <utility>

#include "runtime/base/ticks.h"

namespace pto {

absl::Span<const TaskRecord> TaskRecorder::Finish(int64_t now_ns, uint64_t now_ticks,
                                                  int64_t accepted_ns) {
  const TickScale scale(base_ns_ - accepted_ns, 0, now_ns - accepted_ns, now_ticks - base_ticks_);
  const size_t count = std::exchange(count_, 0);
  for (size_t i = 0; i < count; ++i) {
    TaskRecord& record = records_[i];
    record.start_ns = record.start_ns < 0 ? ~record.start_ns
                                          : scale.ToNanos(static_cast<uint64_t>(record.start_ns));
    record.end_ns = scale.ToNanos(static_cast<uint64_t>(record.end_ns));
  }
  Begin(now_ns, now_ticks);
  return absl::MakeConstSpan(records_).first(count);
}

}  // namespace pto

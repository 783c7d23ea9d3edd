#include "runtime/engine/services.h"

#include <memory>

namespace pto {

LongTask& Services::BeginLong(Run& run, uint32_t task) {
  return run.long_tasks_.Begin(task, [&](LongTask& entry) {
    const GraphImage& image = run.image();
    const ImageDetail* const detail = image.detail(task);
    entry.start_ns = clock().NowNanos();
    entry.timeout_ns = detail != nullptr && detail->timeout_ns != 0 ? detail->timeout_ns
                                                                    : run.spec_.task_timeout_ns;
    if (entry.timeout_ns > 0 && entry.timeout_ns < INT64_MAX - entry.start_ns &&
        timers_ != nullptr) {
      entry.timer = timers_->Schedule(entry.start_ns + entry.timeout_ns,
                                      [this, weak = run.weak_from_this(), task] {
                                        if (auto late = weak.lock()) Expire(*late, task);
                                      });
    }
    if ((image.tasks()[task].traits & kTaskGang) == 0) return;
    const uint32_t members = detail == nullptr ? 1 : detail->member_count;
    const uint32_t calls = image.calls(task);
    entry.barriers.emplace_back(calls);
    for (uint32_t i = 0; i < members; ++i) entry.barriers.emplace_back(calls / members);
  });
}

std::unique_ptr<LongTask> Services::EndLong(Run& run, uint32_t task) {
  std::unique_ptr<LongTask> entry = run.long_tasks_.End(task);
  if (entry != nullptr && entry->timer != 0) timers_->Cancel(entry->timer);
  return entry;
}

void Services::EndWaits(Run& run, uint32_t task, WaitEnd end) {
  for (const WaitTable::Key& key : run.long_tasks_.Waits(task)) waits_.End(key, end);
}

void Services::Expire(Run& run, uint32_t task) {
  // What ends here may be the last that keeps the run from ending.
  if (!run.Hold()) return;
  if (run.long_tasks_.MarkLate(task)) EndWaits(run, task, WaitEnd::kTimedOut);
  scheduler_.Drop(run);
}

}  // namespace pto

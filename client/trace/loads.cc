#include "client/trace/loads.h"

#include <algorithm>

namespace pto::trace {

std::vector<Load> CountLoads(const RunTrace& trace, size_t max) {
  std::vector<Load> changes = {{}};
  const auto change = [&](int64_t at, int64_t ready, int64_t running, int64_t deferred) {
    changes.push_back({at, ready, running, deferred});
  };
  for (const Task& task : trace.tasks) {
    if (!task.shown()) continue;
    const auto count = static_cast<int64_t>(task.stands_for);
    if (task.phase == Task::Phase::kWaiting) continue;
    if (task.phase == Task::Phase::kReady) {
      change(task.start_ns, count, 0, 0);
      continue;
    }
    if (task.ready_ns >= 0) {
      change(task.ready_ns, 1, 0, 0);
      change(task.start_ns, -1, 0, 0);
    }
    change(task.start_ns, 0, count, 0);
    // A task that has not ended continues to the end of the picture.
    if (task.phase == Task::Phase::kRunning) continue;
    change(task.returned_ns, 0, -count, count);
    if (task.ended()) change(task.end_ns, 0, 0, -count);
  }
  // So that the last value is drawn up to the end.
  change(trace.end_ns, 0, 0, 0);
  std::sort(changes.begin(), changes.end(),
            [](const Load& a, const Load& b) { return a.time_ns < b.time_ns; });
  std::vector<Load> loads;
  const int64_t end = changes.back().time_ns;
  const int64_t step = max == 0 ? 0 : end / static_cast<int64_t>(max);
  Load now;
  for (size_t i = 0; i < changes.size(); ++i) {
    now.ready += changes[i].ready;
    now.running += changes[i].running;
    now.deferred += changes[i].deferred;
    now.time_ns = changes[i].time_ns;
    // Combines all changes at the same time.
    if (i + 1 < changes.size() && changes[i + 1].time_ns == now.time_ns) continue;
    const bool last = i + 1 == changes.size();
    if (!last && !loads.empty() && now.time_ns < loads.back().time_ns + step) continue;
    loads.push_back(now);
  }
  return loads;
}

}  // namespace pto::trace

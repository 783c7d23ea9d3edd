#include "runtime/engine/exec/task_flow.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/base/ticks.h"
#include "runtime/engine/exec/run_linker.h"
#include "runtime/engine/exec/stop_note.h"
#include "runtime/engine/exec/task_waiter.h"
#include "runtime/engine/run/failure.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {
namespace {

// A sleeping worker is woken for work that takes longer than its wake-up. Less would only move the
// run's state from one CPU's caches to another's and back.
constexpr double kWorthWakingMicroseconds = 50;

uint64_t WorthWakingTicks() {
  static const auto ticks = static_cast<uint64_t>(kWorthWakingMicroseconds * TicksPerMicrosecond());
  return ticks;
}

}  // namespace

void TaskFlow::BeginTasks(CoreStay& stay, Run& run, absl::Span<const uint32_t> tasks,
                          bool taking_one) {
  if (tasks.empty()) return;
  const GraphImage& image = run.image();
  if (image.has_multi_block_tasks()) {
    for (const uint32_t task : tasks) {
      if (image.tasks()[task].one_call()) continue;
      run.tasks().counter(task).store(image.calls(task), std::memory_order_relaxed);
    }
  }
  if ((image.traits() & ~kTaskHasDetail) == 0 && run.spec().task_timeout_ns == 0) {
    run.life().Add(tasks.size());
    scheduler_.Push(run, tasks, taking_one, &stay.group);
    return;
  }
  stay.ticket = CoreStay::Nowhere(run, tasks[0]);
  stay.chip = stay.ticket.chip;
  stay.alone = false;
  stay.last_ticks = Ticks();
  stay.recorder.Begin(scheduler_.clock().NowNanos(), stay.last_ticks);
  for (const uint32_t task : tasks) {
    (run.IsSlow(task) ? stay.released.special : stay.released.elsewhere).push_back(task);
  }
  DispatchSpecial(stay);
  PushElsewhere(stay);
}

void TaskFlow::CountEnd(CoreStay& stay, uint32_t task, bool failed, int64_t start_ns,
                        int64_t deferred_ns) {
  Run& run = *stay.ticket.run;
  ++stay.ended;
  if (failed) {
    run.outcome().AddFailed();
  } else {
    ++stay.done;
  }
  if (stay.measured || stay.timed || failed) stay.NoteEnd(task, failed, start_ns, deferred_ns);
  Release(stay, task, failed);
}

void TaskFlow::EndTask(CoreStay& stay, uint32_t task, bool failed, int64_t start_ns,
                       int64_t deferred_ns) {
  CountEnd(stay, task, failed, start_ns, deferred_ns);
  DispatchReleased(stay);
  if (stay.released.local.size() > 1 && scheduler_.parking().has_sleepers()) ShareSurplus(stay);
}

void TaskFlow::EndSlow(CoreStay& stay, uint32_t task, bool failed, int64_t start_ns) {
  Run& run = *stay.ticket.run;
  int64_t deferred_ns = 0;
  if (const std::unique_ptr<LongTask> ended = services_.EndLong(run, task)) {
    if (start_ns == 0) start_ns = ended->start_ns;
    if (const int64_t returned_ns = ended->returned_ns.load(std::memory_order_relaxed)) {
      deferred_ns = std::max<int64_t>(stay.recorder.base_ns() - returned_ns, 0);
      // A task that ends without a core is recorded on the one where it ran.
      if (stay.ticket.kind == 0) stay.ticket.core = static_cast<int32_t>(ended->core.load());
    }
    if (ended->late.load(std::memory_order_acquire)) {
      run.outcome().AddError(StopNote::TimeIsUp(run, task, *ended));
      failed = true;
    }
  }
  stay.measured = stay.timed;
  stay.begin_ticks = stay.last_ticks;
  EndTask(stay, task, failed, start_ns, deferred_ns);
}

void TaskFlow::EndDeferred(CoreStay& stay, absl::Status error) {
  Run& run = *stay.ticket.run;
  const uint32_t task = stay.ticket.task;
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  // The task needs its own count: this thread's count goes on with other tasks.
  stay.alone = false;
  run.life().Add();
  if (!error.ok() && !run.stopping()) {
    run.outcome().AddError(std::move(error));
    counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  }
  const uint32_t before = counter.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & ~RunTasks::kFailedBit) != 1) return;
  run.life().TakeBack();
  if (!run.stopping()) EndSlow(stay, task, (before & RunTasks::kFailedBit) != 0, 0);
}

void TaskFlow::DispatchReleased(CoreStay& stay) {
  if (!stay.released.special.empty()) DispatchSpecial(stay);
  if (!stay.released.elsewhere.empty()) PushElsewhere(stay);
  if (!stay.released.linked.empty()) ReleaseLinked(stay);
}

void TaskFlow::DispatchSpecial(CoreStay& stay) {
  Run& run = *stay.ticket.run;
  const GraphImage& image = run.image();
  // A task that is passed over may make others ready, which are appended.
  size_t errands = 0;
  for (size_t i = 0; i < stay.released.special.size(); ++i) {
    const uint32_t task = stay.released.special[i];
    const uint8_t traits = image.tasks()[task].traits;
    run.tasks().counter(task).store(image.calls(task), std::memory_order_relaxed);
    if ((traits & kTaskPredicated) != 0 && !TaskData::PredicateHolds(run, task)) {
      PassOver(stay, task);
    } else if ((traits & kTaskControl) != 0) {
      stay.released.special[errands++] = task;
    } else if (image.kernel(task).plan != nullptr && starter_.Begin(stay, task)) {
      continue;
    } else {
      stay.released.elsewhere.push_back(task);
    }
  }
  if (starter_.has_begun()) starter_.Publish(stay);
  if (errands > 0) {
    stay.alone = false;
    run.life().Add(errands);
    stay.Flush();
    for (size_t i = 0; i < errands; ++i) {
      services_.errands().Push(
          *new TaskErrand(run, stay.released.special[i], TaskErrand::Kind::kBegin));
    }
  }
  stay.released.special.clear();
}

void TaskFlow::PassOver(CoreStay& stay, uint32_t task) {
  Run& run = *stay.ticket.run;
  if (run.started_ns() == 0) stay.MarkStarted();
  ++stay.ended;
  ++stay.done;
  run.outcome().AddPassedOver();
  if (run.spec().record_level == RecordLevel::kAll) {
    const uint64_t now = Ticks();
    stay.AddRecord(task, 0, TaskOutcome::kPassedOver, {now, now});
  }
  Release(stay, task, false);
}

void TaskFlow::PushElsewhere(CoreStay& stay) {
  stay.Push(stay.released.elsewhere);
  stay.released.elsewhere.clear();
}

void TaskFlow::ReleaseLinked(CoreStay& stay) {
  stay.Flush();
  for (const auto& [ended, failed] : stay.released.linked) {
    RunLinker(services_, *stay.completions).Release(*stay.ticket.run, ended, failed);
  }
  stay.released.linked.clear();
  stay.EndTurnIfRunsEnded();
}

void TaskFlow::Release(CoreStay& stay, uint32_t task, bool failed) {
  const size_t first = stay.released.local.size();
  Tell(stay, task, failed);
  if (!stay.released.skipped.empty()) SkipPoisoned(stay);
  // Run the first in the order of the graph first: it is nearest in memory.
  std::reverse(stay.released.local.begin() + static_cast<ptrdiff_t>(first),
               stay.released.local.end());
}

void TaskFlow::Tell(CoreStay& stay, uint32_t ended, bool failed) {
  Run& run = *stay.ticket.run;
  for (const uint32_t successor : run.image().successors(ended)) {
    MetDependencies met = run.tasks().met(successor);
    const MetDependencies::State state = stay.alone && !failed ? met.AddAlone() : met.Add(failed);
    if (state != MetDependencies::State::kWaits) SortOut(stay, successor, state);
  }
  if (run.links().waiters != nullptr) stay.released.linked.emplace_back(ended, failed);
}

void TaskFlow::SortOut(CoreStay& stay, uint32_t task, MetDependencies::State state) {
  Run& run = *stay.ticket.run;
  if (state == MetDependencies::State::kPoisoned) {
    stay.released.skipped.push_back(task);
    return;
  }
  if (run.IsSlow(task)) {
    stay.released.special.push_back(task);
    return;
  }
  const ImageTask& ready = run.image().tasks()[task];
  if (ready.block_num > 1) {
    run.tasks().counter(task).store(ready.block_num, std::memory_order_relaxed);
  }
  (stay.IsForThisCore(ready) ? stay.released.local : stay.released.elsewhere).push_back(task);
}

void TaskFlow::SkipPoisoned(CoreStay& stay) {
  Run& run = *stay.ticket.run;
  SkipTasks(run, stay.released.skipped, [&](uint32_t task) {
    const uint64_t now = Ticks();
    stay.AddRecord(task, 0, TaskOutcome::kSkipped, {now, now});
    if (run.links().waiters != nullptr) stay.released.linked.emplace_back(task, true);
  });
}

void TaskFlow::GiveAway(CoreStay& stay, size_t count) {
  stay.Push(absl::MakeConstSpan(stay.released.local).first(count));
  stay.released.local.erase(stay.released.local.begin(),
                            stay.released.local.begin() + static_cast<ptrdiff_t>(count));
}

void TaskFlow::ShareSurplus(CoreStay& stay) {
  // Keep one of the tasks that take long or whose pace is not known.
  if (stay.ticket.run->image().pace(stay.released.local.front()) != GraphImage::Pace::kShort) {
    GiveAway(stay, stay.released.local.size() - 1);
  } else if (stay.released.local.size() * stay.typical_ticks >= WorthWakingTicks()) {
    GiveAway(stay, stay.released.local.size() / 2);
  }
}

}  // namespace pto::engine

#include "runtime/engine/exec/worker.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "runtime/base/ticks.h"
#include "runtime/engine/exec/block_runner.h"
#include "runtime/engine/exec/run_linker.h"
#include "runtime/engine/run/failure.h"

namespace pto {
namespace {

// Runs with few tasks to begin with are begun by whoever helps with them.
constexpr size_t kFewRoots = 64;

// Somebody is woken for work that takes longer than that does. Less would only carry the run's
// state from one CPU's caches to another's and back.
constexpr double kWorthWakingMicroseconds = 50;

uint64_t WorthWakingTicks() {
  static const auto ticks = static_cast<uint64_t>(kWorthWakingMicroseconds * TicksPerMicrosecond());
  return ticks;
}

}  // namespace

bool Worker::RunNext(uint32_t max) {
  // None of the three may keep the others waiting.
  for (uint32_t i = 0; i < 3; ++i) {
    switch (turn_++ % 3) {
      case 0:
        if (TakeFiber(0)) return true;
        break;
      case 1:
        if (TakeErrand(0)) return true;
        break;
      default: {
        BlockTicket ticket;
        stay_.left_core = false;
        if (!scheduler_.TakeAny(max, &next_chip_, &ticket, &stay_.released.local)) break;
        // The task that this thread was woken for may be another one.
        PassOn();
        Execute(ticket);
        return true;
      }
    }
  }
  return false;
}

void Worker::HelpWith(Run& run, int64_t until_ns) {
  stay_.until_ns = until_ns;
  BlockTicket ticket;
  while (scheduler_.clock().NowNanos() < until_ns) {
    if (scheduler_.TakeOf(run, MaxBatch(), &ticket, &stay_.released.local)) {
      Execute(ticket);
    } else if (Errand* const errand = services_.errands().TakeOf(run)) {
      errand->Do(*this);
    } else {
      break;
    }
  }
  stay_.until_ns = 0;
}

void Worker::BeginWith(Run& run, int64_t until_ns) {
  stay_.holds = 1;
  const GraphImage& image = run.image();
  const absl::Span<const uint32_t> roots = image.roots();
  const ImageTask& first = image.tasks()[roots[0]];
  const auto kind = static_cast<pto_core>(first.core);
  BlockTicket ticket;
  ticket.run = &run;
  ticket.task = roots[0];
  ticket.kind = kind;
  ticket.chip = first.chip;
  const auto alike = [&](uint32_t root) {
    const ImageTask& task = image.tasks()[root];
    return task.chip == first.chip && task.core == first.core && task.one_call() &&
           !run.IsSlow(root);
  };
  if (roots.size() <= kFewRoots && std::all_of(roots.begin(), roots.end(), alike) &&
      scheduler_.queue(first.chip).TakeCore(run, kind, &ticket.core)) {
    run.life().Add(roots.size());
    stay_.until_ns = until_ns;
    stay_.released.local.assign(roots.begin() + 1, roots.end());
    Execute(ticket);
  } else {
    BeginRoots(run, true);
  }
  HelpWith(run, until_ns);
  stay_.holds = 0;
}

void Worker::Clear(Run& run) {
  BlockTicket ticket;
  while (scheduler_.TakeOf(run, 1, &ticket, &stay_.released.local)) Execute(ticket);
  services_.CancelWaits(run);
  for (Errand* const errand : services_.errands().TakeAllOf(run)) errand->Do(*this);
}

void Worker::Execute(const BlockTicket& ticket) {
  stay_.ticket = ticket;
  Run& run = *stay_.ticket.run;
  stay_.chip = stay_.ticket.chip;
  if (stay_.ticket.core < 0) {
    stay_.Abandon();
    return;
  }
  // The first task stands for all that are here.
  if (!stay_.released.local.empty()) {
    run.life().TakeBack(stay_.released.local.size());
    std::reverse(stay_.released.local.begin(), stay_.released.local.end());
  }
  if (run.stopping()) {
    stay_.released.local.clear();
    stay_.LeaveCore();
    stay_.ticket.abandoned = stay_.ticket.block_end - stay_.ticket.block;
    stay_.Abandon();
    return;
  }
  stay_.Begin(ticket);
  if (run.IsSlow(stay_.ticket.task)) {
    ExecuteSlow();
    return;
  }
  if (run.image().tasks()[stay_.ticket.task].one_call()) {
    stay_.released.local.push_back(stay_.ticket.task);
    RunPlain();
  } else {
    if (!RunBlocks()) return;
    RunLocal();
  }
  if (stay_.crowded) stay_.crowded = scheduler_.OthersWait(run);
  batch_ = stay_.was_long ? 1 : std::min(kMaxBatch, 2 * batch_);
  stay_.End();
}

void Worker::CountEnd(uint32_t task, bool failed, int64_t start_ns, int64_t deferred_ns) {
  Run& run = *stay_.ticket.run;
  ++stay_.ended;
  if (failed) {
    run.outcome().AddFailed();
  } else {
    ++stay_.done;
  }
  if (stay_.measured || stay_.timed || failed) stay_.NoteEnd(task, failed, start_ns, deferred_ns);
  Release(task, failed);
}

void Worker::EndTask(uint32_t task, bool failed, int64_t start_ns, int64_t deferred_ns) {
  CountEnd(task, failed, start_ns, deferred_ns);
  SeeToReleased();
  if (stay_.released.local.size() > 1 && scheduler_.parking().has_sleepers()) ShareSurplus();
}

void Worker::SeeToReleased() {
  if (!stay_.released.special.empty()) SortSpecial();
  if (!stay_.released.elsewhere.empty()) PushElsewhere();
  if (!stay_.released.linked.empty()) ReleaseLinked();
}

void Worker::PushElsewhere() {
  stay_.Push(stay_.released.elsewhere);
  stay_.released.elsewhere.clear();
}

void Worker::ReleaseLinked() {
  stay_.Flush();
  for (const auto& [ended, failed] : stay_.released.linked) {
    RunLinker(services_).Release(*stay_.ticket.run, ended, failed);
  }
  stay_.released.linked.clear();
}

void Worker::Release(uint32_t task, bool failed) {
  const size_t first = stay_.released.local.size();
  Tell(task, failed);
  if (!stay_.released.skipped.empty()) SkipPoisoned();
  // The first in the order of the graph is run first: it is nearest in memory.
  std::reverse(stay_.released.local.begin() + static_cast<ptrdiff_t>(first),
               stay_.released.local.end());
}

void Worker::Tell(uint32_t ended, bool failed) {
  Run& run = *stay_.ticket.run;
  for (const uint32_t successor : run.image().successors(ended)) {
    MetDependencies met = run.tasks().met(successor);
    const MetDependencies::State state = stay_.alone && !failed ? met.AddAlone() : met.Add(failed);
    if (state != MetDependencies::State::kWaits) SortOut(successor, state);
  }
  if (run.links().waiters != nullptr) stay_.released.linked.emplace_back(ended, failed);
}

void Worker::SortOut(uint32_t task, MetDependencies::State state) {
  Run& run = *stay_.ticket.run;
  if (state == MetDependencies::State::kPoisoned) {
    stay_.released.skipped.push_back(task);
    return;
  }
  if (run.IsSlow(task)) {
    stay_.released.special.push_back(task);
    return;
  }
  const ImageTask& ready = run.image().tasks()[task];
  if (ready.block_num > 1) {
    run.tasks().counter(task).store(ready.block_num, std::memory_order_relaxed);
  }
  (stay_.IsForThisCore(ready) ? stay_.released.local : stay_.released.elsewhere).push_back(task);
}

void Worker::SkipPoisoned() {
  Run& run = *stay_.ticket.run;
  SkipTasks(run, stay_.released.skipped, [&](uint32_t task) {
    const uint64_t now = Ticks();
    stay_.AddRecord(task, 0, TaskOutcome::kSkipped, {now, now});
    if (run.links().waiters != nullptr) stay_.released.linked.emplace_back(task, true);
  });
}

void Worker::GiveAway(size_t count) {
  stay_.Push(absl::MakeConstSpan(stay_.released.local).first(count));
  stay_.released.local.erase(stay_.released.local.begin(),
                             stay_.released.local.begin() + static_cast<ptrdiff_t>(count));
}

void Worker::ShareSurplus() {
  // Of what takes long, or nobody knows, one is kept.
  if (stay_.ticket.run->image().pace(stay_.released.local.front()) != GraphImage::Pace::kShort) {
    GiveAway(stay_.released.local.size() - 1);
  } else if (stay_.released.local.size() * stay_.typical_ticks >= WorthWakingTicks()) {
    GiveAway(stay_.released.local.size() / 2);
  }
}

bool Worker::ShouldYield() {
  // A gang waits for the core itself, so no task more is run on it.
  if (stay_.GangWaits()) return true;
  stay_.count = 0;
  if (stay_.until_ns != 0 && scheduler_.clock().NowNanos() >= stay_.until_ns) return true;
  if (services_.errands().size() > 0 || (lane_ != nullptr && lane_->runnable() > 0)) return true;
  return scheduler_.OthersWait(*stay_.ticket.run);
}

}  // namespace pto

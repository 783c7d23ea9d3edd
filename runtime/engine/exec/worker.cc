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

// A thread keeps no more scratch memory than for this many tasks.
constexpr size_t kMaxKeptTasks = 65'536;

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
        left_core_ = false;
        if (!scheduler_.TakeAny(max, &next_chip_, &ticket, &local_)) break;
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
  until_ns_ = until_ns;
  BlockTicket ticket;
  while (scheduler_.clock().NowNanos() < until_ns) {
    if (scheduler_.TakeOf(run, MaxBatch(), &ticket, &local_)) {
      Execute(ticket);
    } else if (Errand* const errand = services_.errands().TakeOf(run)) {
      errand->Do(*this);
    } else {
      break;
    }
  }
  until_ns_ = 0;
}

void Worker::BeginWith(Run& run, int64_t until_ns) {
  holds_ = 1;
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
    until_ns_ = until_ns;
    local_.assign(roots.begin() + 1, roots.end());
    Execute(ticket);
  } else {
    BeginRoots(run, true);
  }
  HelpWith(run, until_ns);
  holds_ = 0;
}

void Worker::Clear(Run& run) {
  BlockTicket ticket;
  while (scheduler_.TakeOf(run, 1, &ticket, &local_)) Execute(ticket);
  services_.CancelWaits(run);
  for (Errand* const errand : services_.errands().TakeAllOf(run)) errand->Do(*this);
}

void Worker::Execute(const BlockTicket& ticket) {
  ticket_ = ticket;
  Run& run = *ticket_.run;
  chip_ = ticket_.chip;
  if (ticket_.core < 0) {
    Abandon(ticket_);
    return;
  }
  // The first task stands for all that are here.
  if (!local_.empty()) {
    run.life().TakeBack(local_.size());
    std::reverse(local_.begin(), local_.end());
  }
  if (run.stopping()) {
    local_.clear();
    LeaveCore();
    ticket_.abandoned = ticket_.block_end - ticket_.block;
    Abandon(ticket_);
    return;
  }
  BeginStretch(ticket);
  if (run.IsSlow(ticket_.task)) {
    ExecuteSlow();
    return;
  }
  if (run.image().tasks()[ticket_.task].one_call()) {
    local_.push_back(ticket_.task);
    RunPlain();
  } else {
    if (!RunBlocks()) return;
    RunLocal();
  }
  if (crowded_) crowded_ = scheduler_.OthersWait(run);
  batch_ = long_ ? 1 : std::min(kMaxBatch, 2 * batch_);
  EndStay();
}

void Worker::BeginStretch(const BlockTicket& ticket) {
  ticket_ = ticket;
  Run& run = *ticket_.run;
  chip_ = ticket_.chip;
  queue_ = &scheduler_.queue(chip_);
  timed_ = run.spec().record_level == RecordLevel::kAll;
  measure_mask_ = timed_ ? MeasureMask(typical_ticks_) : kMeasureOneOf - 1;
  long_ = alone_ = false;
  count_ = 0;
  last_ticks_ = Ticks();
  recorder_.Begin(scheduler_.clock().NowNanos(), last_ticks_);
  if (run.started_ns() == 0) MarkStarted();
}

void Worker::EndStay() {
  Run& run = *ticket_.run;
  Flush();
  LeaveCore();
  if (local_.capacity() > kMaxKeptTasks) local_ = {};
  scheduler_.Drop(run);
}

void Worker::CountEnd(uint32_t task, bool failed, int64_t start_ns, int64_t deferred_ns) {
  Run& run = *ticket_.run;
  ++ended_;
  if (failed) {
    run.outcome().AddFailed();
  } else {
    ++done_;
  }
  if (measured_ || timed_ || failed) NoteEnd(task, failed, start_ns, deferred_ns);
  Release(task, failed);
}

void Worker::EndTask(uint32_t task, bool failed, int64_t start_ns, int64_t deferred_ns) {
  CountEnd(task, failed, start_ns, deferred_ns);
  SeeToReleased();
  if (local_.size() > 1 && scheduler_.parking().has_sleepers()) ShareSurplus();
}

void Worker::SeeToReleased() {
  if (!special_.empty()) SortSpecial();
  if (!elsewhere_.empty()) PushElsewhere();
  if (!linked_.empty()) ReleaseLinked();
}

void Worker::PushElsewhere() {
  Run& run = *ticket_.run;
  alone_ = false;
  run.life().Add(elsewhere_.size());
  Flush();
  scheduler_.Push(run, elsewhere_, false, &group_);
  elsewhere_.clear();
}

void Worker::ReleaseLinked() {
  Flush();
  for (const auto& [ended, failed] : linked_) {
    RunLinker(services_).Release(*ticket_.run, ended, failed);
  }
  linked_.clear();
}

void Worker::Release(uint32_t task, bool failed) {
  const size_t first = local_.size();
  Tell(task, failed);
  if (!skipped_.empty()) SkipPoisoned();
  // The first in the order of the graph is run first: it is nearest in memory.
  std::reverse(local_.begin() + static_cast<ptrdiff_t>(first), local_.end());
}

void Worker::Tell(uint32_t ended, bool failed) {
  Run& run = *ticket_.run;
  for (const uint32_t successor : run.image().successors(ended)) {
    MetDependencies met = run.tasks().met(successor);
    const MetDependencies::State state = alone_ && !failed ? met.AddAlone() : met.Add(failed);
    if (state != MetDependencies::State::kWaits) SortOut(successor, state);
  }
  if (run.links().waiters != nullptr) linked_.emplace_back(ended, failed);
}

void Worker::SortOut(uint32_t task, MetDependencies::State state) {
  Run& run = *ticket_.run;
  if (state == MetDependencies::State::kPoisoned) {
    skipped_.push_back(task);
    return;
  }
  if (run.IsSlow(task)) {
    special_.push_back(task);
    return;
  }
  const ImageTask& ready = run.image().tasks()[task];
  if (ready.block_num > 1) {
    run.tasks().counter(task).store(ready.block_num, std::memory_order_relaxed);
  }
  (IsForThisCore(ready) ? local_ : elsewhere_).push_back(task);
}

void Worker::SkipPoisoned() {
  Run& run = *ticket_.run;
  SkipTasks(run, skipped_, [&](uint32_t task) {
    const uint64_t now = Ticks();
    AddRecord(task, 0, TaskOutcome::kSkipped, {now, now});
    if (run.links().waiters != nullptr) linked_.emplace_back(task, true);
  });
}

void Worker::AddRecord(uint32_t task, uint32_t core, TaskOutcome outcome,
                       const TaskRecorder::Stretch& stretch) {
  const Run& run = *ticket_.run;
  const RecordLevel level = run.spec().record_level;
  if (level == RecordLevel::kNone ||
      (level == RecordLevel::kFailed && outcome == TaskOutcome::kDone)) {
    return;
  }
  // Records come in the order of their ends.
  if (recorder_.has_row()) {
    recorder_.MarkRow(last_ticks_, stretch.start_ticks);
    last_ticks_ = stretch.start_ticks;
    if (!recorder_.EndRow(chip_, static_cast<uint32_t>(ticket_.core))) Flush();
  }
  recorder_.Add(task, run.image().tasks()[task].chip, core, outcome, stretch);
  if (recorder_.full()) Flush();
}

void Worker::Flush() {
  Run& run = *ticket_.run;
  if (done_ > 0) run.outcome().AddDone(done_);
  if (ended_ > 0) scheduler_.AddEnded(chip_, ended_);
  done_ = ended_ = 0;
  if (recorder_.empty()) return;
  const uint64_t now = Ticks();
  recorder_.MarkRow(last_ticks_, now);
  last_ticks_ = now;
  const TaskRecorder::Written written =
      recorder_.Finish(scheduler_.clock().NowNanos(), now, run.accepted_ns());
  size_t waiting = run.records().Add(written.records);
  if (!written.row_tasks.empty()) {
    TaskRow row;
    row.core = static_cast<uint32_t>(ticket_.core);
    row.chip = static_cast<uint16_t>(chip_);
    row.tasks = written.row_tasks;
    row.marks = written.row_marks;
    waiting = std::max(waiting, run.records().AddRow(row));
  }
  if (waiting != 0 && run.spec().observer != nullptr) run.spec().observer->OnRecords(run, waiting);
  // The next one begins after all this, and must not seem to take long because of it.
  last_ticks_ = Ticks();
}

void Worker::GiveAway(size_t count) {
  Run& run = *ticket_.run;
  alone_ = false;
  run.life().Add(count);
  Flush();
  scheduler_.Push(run, absl::MakeConstSpan(local_).first(count), false, &group_);
  local_.erase(local_.begin(), local_.begin() + static_cast<ptrdiff_t>(count));
}

void Worker::ShareSurplus() {
  // Of what takes long, or nobody knows, one is kept.
  if (ticket_.run->image().pace(local_.front()) != GraphImage::Pace::kShort) {
    GiveAway(local_.size() - 1);
  } else if (local_.size() * typical_ticks_ >= WorthWakingTicks()) {
    GiveAway(local_.size() / 2);
  }
}

bool Worker::ShouldYield() {
  // A gang waits for the core itself, so no task more is run on it.
  if (GangWaits()) return true;
  count_ = 0;
  if (until_ns_ != 0 && scheduler_.clock().NowNanos() >= until_ns_) return true;
  if (services_.errands().size() > 0 || (lane_ != nullptr && lane_->runnable() > 0)) return true;
  return scheduler_.OthersWait(*ticket_.run);
}

void Worker::Abandon(const BlockTicket& ticket) {
  Run& run = *ticket.run;
  if (run.image().tasks()[ticket.task].block_num > 1 || run.IsSlow(ticket.task)) {
    const uint32_t before =
        run.tasks().counter(ticket.task).fetch_sub(ticket.abandoned, std::memory_order_acq_rel);
    if ((before & ~RunTasks::kFailedBit) != ticket.abandoned) return;
  }
  scheduler_.Drop(run);
}

void Worker::MarkStarted() {
  Run& run = *ticket_.run;
  if (!run.outcome().Start(recorder_.base_ns())) return;
  if (run.spec().observer != nullptr) run.spec().observer->OnStarted(run);
}

void Worker::LeaveCore() {
  left_core_ = true;
  scheduler_.ReleaseCore(ticket_);
}

}  // namespace pto

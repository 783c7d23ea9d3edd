#include "runtime/engine/worker.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "runtime/base/ticks.h"
#include "runtime/engine/block_runner.h"
#include "runtime/engine/run_linker.h"

namespace pto {
namespace {

// How many short tasks are taken at once, and run before others get their turn.
constexpr uint32_t kMaxBatch = 64;

// As many as this are worth waking somebody for, however short they are.
constexpr size_t kManyTasks = 64;

// A task that takes longer is worth waking somebody for.
constexpr double kLongMicroseconds = 5;

// When tasks are not measured for their records, one of so many is to learn its kernel's pace.
constexpr uint32_t kMeasureOneOf = 16;

// A thread keeps no more scratch memory than for this many tasks.
constexpr size_t kMaxKeptTasks = 65'536;

uint64_t LongTicks() {
  static const auto ticks = static_cast<uint64_t>(kLongMicroseconds * TicksPerMicrosecond());
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
        if (!scheduler_.TakeAny(max, &next_chip_, &ticket, &local_)) break;
        // Whoever queued a task for itself may have been given another one: pass the word on.
        if (scheduler_.parking().has_sleepers() && scheduler_.ready() > 0) {
          scheduler_.parking().Wake(1);
        }
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
    if (scheduler_.TakeOf(run, kMaxBatch, &ticket, &local_)) {
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
  const GraphImage& image = run.image();
  const absl::Span<const uint32_t> roots = image.roots();
  const ImageTask& first = image.tasks()[roots[0]];
  const auto kind = static_cast<pto_core>(first.core);
  BlockTicket ticket;
  ticket.run = &run;
  ticket.task = roots[0];
  ticket.kind = kind;
  ticket.chip = first.chip;
  const bool alike = std::all_of(roots.begin(), roots.end(), [&](uint32_t root) {
    const ImageTask& task = image.tasks()[root];
    return task.chip == first.chip && task.core == first.core && task.one_call() &&
           !run.IsSlow(root);
  });
  if (alike && roots.size() <= kMaxBatch &&
      scheduler_.queue(first.chip).TakeCore(run, kind, &ticket.core)) {
    run.outstanding_.fetch_add(static_cast<int64_t>(roots.size()), std::memory_order_acq_rel);
    until_ns_ = until_ns;
    local_.assign(roots.begin() + 1, roots.end());
    Execute(ticket);
  } else {
    BeginTasks(run, roots, true);
  }
  HelpWith(run, until_ns);
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
    run.outstanding_.fetch_sub(static_cast<int64_t>(local_.size()), std::memory_order_acq_rel);
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
  if (!RunBlocks()) return;
  RunLocal();
  batch_ = long_ ? 1 : std::min(kMaxBatch, 2 * batch_);
  EndStay();
}

void Worker::BeginStretch(const BlockTicket& ticket) {
  ticket_ = ticket;
  Run& run = *ticket_.run;
  chip_ = ticket_.chip;
  queue_ = &scheduler_.queue(chip_);
  timed_ = run.spec_.record_level == RecordLevel::kAll;
  long_ = false;
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

bool Worker::RunBlocks() {
  Run& run = *ticket_.run;
  const uint32_t task = ticket_.task;
  const uint32_t blocks = ticket_.block_end - ticket_.block;
  BeginTask(task);
  bool failed = false;
  bool stopped = false;
  for (; ticket_.block < ticket_.block_end && !stopped; ++ticket_.block) {
    stopped = run.stopping();
    if (stopped) break;
    if (scheduler_.trace() != nullptr) scheduler_.trace()->OnStart(ticket_);
    absl::Status error;
    const BlockEnd end = BlockRunner::Call(services_, ticket_, &error);
    // A kernel may have seen its cancel flag and returned early: what it says is no success.
    stopped = run.stopping();
    if (end == BlockEnd::kDone) continue;
    if (end == BlockEnd::kDeferred) {
      EndDeferred(std::move(error));
      return true;
    }
    if (stopped) break;
    failed = true;
    run.AddError(std::move(error));
  }
  if (run.image().tasks()[task].one_call()) {
    if (!stopped) EndTask(task, failed, 0);
    return true;
  }
  if (stopped) {
    // Once these are counted, the run may end and be gone.
    LeaveCore();
    ticket_.abandoned = blocks;
    Abandon(ticket_);
    return false;
  }
  int64_t none = 0;
  run.block_starts_[task].compare_exchange_strong(none, recorder_.base_ns(),
                                                  std::memory_order_relaxed);
  std::atomic<uint32_t>& counter = run.counters_[task];
  if (failed) counter.fetch_or(Run::kFailedBit, std::memory_order_relaxed);
  const uint32_t before = counter.fetch_sub(blocks, std::memory_order_acq_rel);
  if ((before & ~Run::kFailedBit) != blocks) {
    LeaveCore();
    return false;
  }
  EndTask(task, (before & Run::kFailedBit) != 0,
          run.block_starts_[task].load(std::memory_order_relaxed));
  return true;
}

void Worker::RunLocal() {
  Run& run = *ticket_.run;
  while (!local_.empty()) {
    if (run.stopping()) {
      local_.clear();
      return;
    }
    if ((++count_ >= kMaxBatch || long_ || GangWaits()) && ShouldYield()) {
      GiveAway(local_.size());
      return;
    }
    ticket_.task = local_.back();
    ticket_.block = 0;
    local_.pop_back();
    BeginTask(ticket_.task);
    if (scheduler_.trace() != nullptr) scheduler_.trace()->OnStart(ticket_);
    absl::Status error;
    const BlockEnd end = BlockRunner::Call(services_, ticket_, &error);
    if (end == BlockEnd::kDeferred) {
      EndDeferred(std::move(error));
      // The next one begins now.
      if (timed_) last_ticks_ = Ticks();
      continue;
    }
    if (run.stopping()) {
      local_.clear();
      return;
    }
    if (end == BlockEnd::kFailed) run.AddError(std::move(error));
    EndTask(ticket_.task, end == BlockEnd::kFailed, 0);
  }
}

void Worker::BeginTask(uint32_t task) {
  measured_ = timed_ || count_ % kMeasureOneOf == 0 ||
              ticket_.run->image().pace(task) == GraphImage::Pace::kUnknown;
  // Those that are all measured begin when the one before ends.
  if (measured_ && !timed_) last_ticks_ = Ticks();
}

void Worker::EndTask(uint32_t task, bool failed, int64_t start_ns) {
  Run& run = *ticket_.run;
  ++ended_;
  if (failed) {
    run.failed_.fetch_add(1, std::memory_order_relaxed);
  } else {
    ++done_;
  }
  if (measured_ || failed) {
    const uint64_t now = Ticks();
    if (measured_) {
      long_ = now - last_ticks_ > LongTicks();
      run.image().SetPace(task, long_ ? GraphImage::Pace::kLong : GraphImage::Pace::kShort);
    }
    AddRecord(task, static_cast<uint32_t>(ticket_.core),
              failed ? TaskOutcome::kFailed : TaskOutcome::kDone,
              {last_ticks_, now, start_ns != 0 ? start_ns - run.accepted_ns() : -1});
    last_ticks_ = now;
  }
  Release(task, failed);
  if (!special_.empty()) SortSpecial();
  if (!elsewhere_.empty()) PushElsewhere();
  if (!linked_.empty()) ReleaseLinked();
  if (local_.size() > 1 && scheduler_.parking().has_sleepers()) ShareSurplus();
}

void Worker::PushElsewhere() {
  Run& run = *ticket_.run;
  run.outstanding_.fetch_add(static_cast<int64_t>(elsewhere_.size()), std::memory_order_acq_rel);
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
  Run& run = *ticket_.run;
  const GraphImage& image = run.image();
  const auto core = static_cast<uint8_t>(ticket_.kind);
  // In a run whose tasks all have a deadline none is plain.
  const uint8_t traits = run.spec_.task_timeout_ns > 0 ? kTaskTimed : 0;
  // Tasks whose successors are to be told; all but the first were skipped.
  pending_.assign(1, task);
  while (!pending_.empty()) {
    const uint32_t ended = pending_.back();
    pending_.pop_back();
    for (const uint32_t successor : image.successors(ended)) {
      std::atomic<uint32_t>& counter = run.counters_[successor];
      if (failed) counter.fetch_or(Run::kFailedBit, std::memory_order_relaxed);
      const uint32_t before = counter.fetch_sub(1, std::memory_order_acq_rel);
      if ((before & ~Run::kFailedBit) != 1) continue;
      if ((before & Run::kFailedBit) != 0) {
        run.skipped_.fetch_add(1, std::memory_order_relaxed);
        const uint64_t now = Ticks();
        AddRecord(successor, 0, TaskOutcome::kSkipped, {now, now});
        // Only failure reaches a skipped task's successors, also when `task` itself was well:
        // one of its successors may have been poisoned from another side.
        skipped_.push_back(successor);
        continue;
      }
      const ImageTask& next = image.tasks()[successor];
      if (((next.traits | traits) & ~kTaskHasDetail) != 0) {
        special_.push_back(successor);
        continue;
      }
      if (next.block_num > 1) counter.store(next.block_num, std::memory_order_relaxed);
      const bool here = next.chip == chip_ && next.core == core && next.block_num == 1;
      (here ? local_ : elsewhere_).push_back(successor);
    }
    if (run.links_ != nullptr) linked_.emplace_back(ended, failed);
    if (pending_.empty() && !skipped_.empty()) {
      failed = true;
      pending_.swap(skipped_);
    }
  }
}

void Worker::AddRecord(uint32_t task, uint32_t core, TaskOutcome outcome,
                       const TaskRecorder::Stretch& stretch) {
  const Run& run = *ticket_.run;
  const RecordLevel level = run.spec_.record_level;
  if (level == RecordLevel::kNone ||
      (level == RecordLevel::kFailed && outcome == TaskOutcome::kDone)) {
    return;
  }
  recorder_.Add(task, run.image().tasks()[task].chip, core, outcome, stretch);
  if (recorder_.full()) Flush();
}

void Worker::Flush() {
  Run& run = *ticket_.run;
  if (done_ > 0) run.done_.fetch_add(done_, std::memory_order_relaxed);
  if (ended_ > 0) scheduler_.AddEnded(chip_, ended_);
  done_ = ended_ = 0;
  if (recorder_.empty()) return;
  last_ticks_ = Ticks();
  const size_t waiting = run.records_.Add(
      recorder_.Finish(scheduler_.clock().NowNanos(), last_ticks_, run.accepted_ns()));
  if (waiting != 0 && run.spec_.observer != nullptr) run.spec_.observer->OnRecords(run, waiting);
}

void Worker::GiveAway(size_t count) {
  Run& run = *ticket_.run;
  run.outstanding_.fetch_add(static_cast<int64_t>(count), std::memory_order_acq_rel);
  Flush();
  scheduler_.Push(run, absl::MakeConstSpan(local_).first(count), false, &group_);
  local_.erase(local_.begin(), local_.begin() + static_cast<ptrdiff_t>(count));
}

void Worker::ShareSurplus() {
  // Of what takes long, or nobody knows, one is kept.
  if (ticket_.run->image().pace(local_.front()) != GraphImage::Pace::kShort) {
    GiveAway(local_.size() - 1);
  } else if (local_.size() >= kManyTasks) {
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
        run.counters_[ticket.task].fetch_sub(ticket.abandoned, std::memory_order_acq_rel);
    if ((before & ~Run::kFailedBit) != ticket.abandoned) return;
  }
  scheduler_.Drop(run);
}

void Worker::MarkStarted() {
  Run& run = *ticket_.run;
  int64_t none = 0;
  const int64_t now = recorder_.base_ns();
  if (!run.started_ns_.compare_exchange_strong(none, now, std::memory_order_acq_rel)) return;
  RunState queued = RunState::kQueued;
  run.state_.compare_exchange_strong(queued, RunState::kRunning, std::memory_order_acq_rel);
  if (run.spec_.observer != nullptr) run.spec_.observer->OnStarted(run);
}

void Worker::LeaveCore() { scheduler_.ReleaseCore(ticket_); }

}  // namespace pto

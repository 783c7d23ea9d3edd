// What a Worker does with plain tasks, which are most: calls of kernels, one after the other.
//
// For short kernels the time between two calls is what a graph costs. So nothing is done there for
// each task that can be done for many of them, and what is rare leaves the loop.

#include <algorithm>
#include <utility>

#include "runtime/base/ticks.h"
#include "runtime/engine/exec/plain_calls.h"
#include "runtime/engine/exec/worker.h"

namespace pto {
namespace {

constexpr uint32_t kNoTask = 0xffffffff;
constexpr uint32_t kNoKernel = 0xffffffff;

// A task that takes longer is worth waking somebody for.
constexpr double kLongMicroseconds = 5;

uint64_t LongTicks() {
  static const auto ticks = static_cast<uint64_t>(kLongMicroseconds * TicksPerMicrosecond());
  return ticks;
}

// Tasks are measured together, for their records, while they take about so long together.
constexpr double kTogetherMicroseconds = 2;

uint64_t TogetherTicks() {
  static const auto ticks = static_cast<uint64_t>(kTogetherMicroseconds * TicksPerMicrosecond());
  return ticks;
}

}  // namespace

uint32_t Worker::MeasureMask(uint64_t ticks) {
  uint32_t mask = kMeasureOneOf - 1;
  while (mask > 0 && (mask + 1) * ticks > TogetherTicks()) mask /= 2;
  return mask;
}

bool Worker::RunBlocks() {
  Run& run = *ticket_.run;
  const uint32_t task = ticket_.task;
  const uint32_t blocks = ticket_.block_end - ticket_.block;
  BeginTask(task);
  bool failed = false;
  bool stopped = false;
  PlainCalls calls(services_, ticket_);
  for (; ticket_.block < ticket_.block_end && !stopped; ++ticket_.block) {
    stopped = run.stopping();
    if (stopped) break;
    if (scheduler_.trace() != nullptr) scheduler_.trace()->OnStart(ticket_);
    const BlockEnd end = calls.Call();
    // A kernel may have seen its cancel flag and returned early: what it says is no success.
    stopped = run.stopping();
    if (end == BlockEnd::kDone) continue;
    if (stopped) break;
    failed = true;
    run.outcome().AddError(calls.TakeError());
  }
  if (stopped) {
    // Once these are counted, the run may end and be gone.
    LeaveCore();
    ticket_.abandoned = blocks;
    Abandon(ticket_);
    return false;
  }
  run.tasks().StartBlock(task, recorder_.base_ns());
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  if (failed) counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  NoteReturn(run, task);
  const uint32_t before = counter.fetch_sub(blocks, std::memory_order_acq_rel);
  if ((before & ~RunTasks::kFailedBit) != blocks) {
    LeaveCore();
    return false;
  }
  EndTask(task, (before & RunTasks::kFailedBit) != 0, run.tasks().block_start_ns(task));
  return true;
}

void Worker::RunLocal() {
  if (local_.empty()) return;
  if (ticket_.run->stopping()) {
    local_.clear();
  } else if (TurnEnds()) {
    GiveAway(local_.size());
  } else {
    RunPlain();
  }
}

// What the loop needs of the graph for each task.
struct Worker::PlainGraph {
  explicit PlainGraph(Run& run)
      : tasks(run.image().tasks().data()),
        successors(run.image().all_successors().data()),
        counters(run.tasks().counters()),
        all_for_one_core(run.image().alike()),
        linked(run.links().waiters != nullptr) {}

  const ImageTask* const tasks;
  const uint32_t* const successors;
  std::atomic<uint32_t>* const counters;
  const bool all_for_one_core;
  const bool linked;
};

void Worker::RunPlain() {
  Run& run = *ticket_.run;
  const PlainGraph graph(run);
  PlacementTrace* const trace = scheduler_.trace();
  const Parking& parking = scheduler_.parking();
  ticket_.block = 0;
  ticket_.task = local_.back();
  PlainCalls calls(services_, ticket_);
  uint32_t short_kernel = kNoKernel;  // one that is known to be
  alone_ = IsAlone();
  CoreView& shown = queue_->own_view(ticket_.core);
  for (uint32_t task = PopLocal();;) {
    ticket_.task = task;
    shown.task.store(task, std::memory_order_relaxed);
    const ImageTask& record = graph.tasks[task];
    if ((count_ & measure_mask_) == 0 || record.kernel != short_kernel) {
      BeginTask(task);
      if (!measured_) short_kernel = record.kernel;
    } else {
      measured_ = false;
    }
    if (trace != nullptr) [[unlikely]] {
      trace->OnStart(ticket_);
    }
    const BlockEnd end = calls.CallOnly(record);
    if (run.stopping()) [[unlikely]] {
      // The kernel may have seen its cancel flag and returned early: what it says is no success.
      if (end == BlockEnd::kDeferred) EndDeferred(calls.TakeError());
      local_.clear();
      return;
    }
    uint32_t next = kNoTask;
    if (end == BlockEnd::kDone) [[likely]] {
      ++ended_;
      ++done_;
      if (measured_) {
        NotePlain(task);
      } else if (timed_) {
        recorder_.AddToRow(task);
      }
      if (recorder_.row_full()) [[unlikely]] {
        Flush();
      }
      next = ReleasePlain(graph, task);
    } else if (end == BlockEnd::kDeferred) {
      if (timed_) NoteDeferred(task);
      EndDeferred(calls.TakeError());
      // The next one begins now.
      if (timed_) last_ticks_ = Ticks();
    } else {
      run.outcome().AddError(calls.TakeError());
      EndTask(task, true, 0);
    }
    if (next == kNoTask) {
      if (local_.empty()) return;
      next = PopLocal();
    }
    // Of short tasks few are measured, and to look for sleepers as often is enough.
    if (measured_ && !local_.empty() && parking.has_sleepers()) {
      local_.push_back(next);
      ShareSurplus();
      next = PopLocal();
    }
    if (TurnEnds()) {
      local_.push_back(next);
      GiveAway(local_.size());
      return;
    }
    if (joint_ != nullptr) [[unlikely]] {
      // There is other work here after all, so the task that has its cores is for others.
      Flush();
      services_.errands().Push(*std::exchange(joint_, nullptr));
    }
    task = next;
  }
}

inline uint32_t Worker::ReleasePlain(const PlainGraph& graph, uint32_t task) {
  uint32_t next = kNoTask;
  size_t more = 0;  // beside the next one
  bool rare = graph.linked;
  const uint32_t* const end = graph.successors + graph.tasks[task + 1].first_successor;
  for (const uint32_t* at = graph.successors + graph.tasks[task].first_successor; at != end; ++at) {
    const uint32_t successor = *at;
    const ImageTask& record = graph.tasks[successor];
    MetDependencies met(graph.counters[successor], record.dependencies);
    const MetDependencies::State state = alone_ ? met.AddAlone() : met.Add(false);
    if (state == MetDependencies::State::kWaits) continue;
    __builtin_prefetch(graph.successors + record.first_successor);
    if (state != MetDependencies::State::kReady ||
        (!graph.all_for_one_core && !IsForThisCore(record))) [[unlikely]] {
      rare = true;
      SortOut(successor, state);
    } else if (next == kNoTask) {
      // The first in the order of the graph is run next: it is nearest in memory.
      next = successor;
    } else {
      local_.push_back(successor);
      ++more;
    }
  }
  if (more > 1) std::reverse(local_.end() - static_cast<ptrdiff_t>(more), local_.end());
  if (rare) [[unlikely]] {
    if (graph.linked) linked_.emplace_back(task, false);
    SkipPoisoned();
    SeeToReleased();
  }
  return next;
}

bool Worker::IsAlone() const {
  // All that is ready or runs is counted, and before it was, nobody else could reach it. So if
  // nothing is counted but what this thread stands for, others have nothing of the run, and what
  // they did to it is seen here.
  const Run& run = *ticket_.run;
  return run.links().waiters == nullptr && run.life().outstanding() == 1 + holds_;
}

void Worker::BeginTask(uint32_t task) {
  measured_ =
      (count_ & measure_mask_) == 0 || ticket_.run->image().pace(task) != GraphImage::Pace::kShort;
  if (!measured_) return;
  // One that follows another one whose end is known begins then.
  begin_ticks_ = timed_ && recorder_.unmarked() == 0 ? last_ticks_ : Ticks();
}

void Worker::LearnPace(uint32_t task, uint64_t took) {
  long_ = took > LongTicks();
  typical_ticks_ = (7 * typical_ticks_ + std::min(took, LongTicks())) / 8;
  ticket_.run->image().SetPace(task, long_ ? GraphImage::Pace::kLong : GraphImage::Pace::kShort);
  if (timed_) measure_mask_ = MeasureMask(std::max(took, typical_ticks_));
}

void Worker::NotePlain(uint32_t task) {
  const uint64_t now = Ticks();
  const uint64_t took = now - begin_ticks_;
  LearnPace(task, took);
  if (!timed_) return;
  // One that is not like those before it has its own time.
  const bool apart = took > TogetherTicks() / 8;
  if (apart) recorder_.MarkRow(last_ticks_, begin_ticks_);
  recorder_.AddToRow(task);
  recorder_.MarkRow(apart ? begin_ticks_ : last_ticks_, now);
  last_ticks_ = now;
}

void Worker::NoteEnd(uint32_t task, bool failed, int64_t start_ns, int64_t deferred_ns) {
  const Run& run = *ticket_.run;
  const uint64_t now = Ticks();
  if (measured_) LearnPace(task, now - begin_ticks_);
  AddRecord(task, static_cast<uint32_t>(ticket_.core),
            failed ? TaskOutcome::kFailed : TaskOutcome::kDone,
            {measured_ ? begin_ticks_ : last_ticks_, now,
             start_ns != 0 ? start_ns - run.accepted_ns() : -1, deferred_ns});
  last_ticks_ = now;
}

void Worker::NoteDeferred(uint32_t task) {
  Run& run = *ticket_.run;
  const uint64_t now = Ticks();
  // Without a measurement it counts to those before it.
  const uint64_t start = measured_ ? begin_ticks_ : recorder_.unmarked() == 0 ? last_ticks_ : now;
  recorder_.MarkRow(last_ticks_, start);
  last_ticks_ = now;
  NoteReturn(run, task);
  LongTask* const long_task = run.long_tasks().Find(task);
  if (long_task == nullptr) return;
  const auto took = static_cast<double>(now - start) * 1000 / TicksPerMicrosecond();
  long_task->start_ns =
      std::max(long_task->returned_ns.load(std::memory_order_relaxed) - static_cast<int64_t>(took),
               run.accepted_ns());
}

void Worker::NoteReturn(Run& run, uint32_t task) {
  if (!timed_ || !run.long_tasks().used()) return;
  LongTask* const long_task = run.long_tasks().Find(task);
  if (long_task == nullptr) return;
  long_task->core.store(static_cast<uint32_t>(ticket_.core), std::memory_order_relaxed);
  long_task->returned_ns.store(scheduler_.clock().NowNanos(), std::memory_order_relaxed);
}

bool Worker::CheckTurn() {
  crowded_ = ShouldYield();
  if (crowded_) return true;
  // Others may have had parts of the run, and have them no more.
  alone_ = IsAlone();
  return false;
}

}  // namespace pto

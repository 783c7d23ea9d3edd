#include "runtime/engine/exec/core_stay.h"

#include <algorithm>

#include "runtime/base/ticks.h"
#include "runtime/engine/run/long_tasks.h"

namespace pto::engine {
namespace {

// A task that takes longer is worth the wake-up of another thread.
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

// A thread keeps scratch memory for no more tasks than this.
constexpr size_t kMaxKeptTasks = 65'536;

}  // namespace

uint32_t CoreStay::MeasureMask(uint64_t ticks) {
  uint32_t mask = kMeasureOneOf - 1;
  while (mask > 0 && (mask + 1) * ticks > TogetherTicks()) mask /= 2;
  return mask;
}

BlockTicket CoreStay::Nowhere(Run& run, uint32_t task) {
  BlockTicket ticket;
  ticket.run = &run;
  ticket.task = task;
  ticket.core = 0;
  ticket.kind = static_cast<pto_core>(0);  // no task is for such a core
  ticket.chip = run.image().tasks()[task].chip;
  return ticket;
}

void CoreStay::Begin(const BlockTicket& next) {
  ticket = next;
  Run& run = *ticket.run;
  chip = ticket.chip;
  queue = &scheduler.queue(chip);
  ShowPlace(ticket);
  timed = run.spec().record_level == RecordLevel::kAll;
  measure_mask = timed ? MeasureMask(typical_ticks) : kMeasureOneOf - 1;
  was_long = alone = false;
  count = 0;
  last_ticks = Ticks();
  recorder.Begin(scheduler.clock().NowNanos(), last_ticks);
  if (run.started_ns() == 0) MarkStarted();
}

void CoreStay::ShowPlace(const BlockTicket& place) const {
  if (pulse == nullptr) return;
  pulse->Beat();
  // A task that is ended without a core shows none.
  if (place.core < 0 || static_cast<uint32_t>(place.kind) == 0) return;
  const ReadyQueue& there = scheduler.queue(place.chip);
  pulse->Stay(place.chip, place.kind == PTO_MIX ? there.ClusterOf(place.core) : place.core);
}

void CoreStay::End() {
  Run& run = *ticket.run;
  Flush();
  LeaveCore();
  if (released.local.capacity() > kMaxKeptTasks) released.local = {};
  Drop(run);
}

void CoreStay::LeaveCore() {
  left_core = true;
  scheduler.ReleaseCore(ticket);
}

void CoreStay::Abandon() {
  Run& run = *ticket.run;
  if (run.image().tasks()[ticket.task].block_num > 1 || run.IsSlow(ticket.task)) {
    const uint32_t before =
        run.tasks().counter(ticket.task).fetch_sub(ticket.abandoned, std::memory_order_acq_rel);
    if ((before & ~RunTasks::kFailedBit) != ticket.abandoned) return;
  }
  Drop(run);
}

void CoreStay::MarkStarted() {
  Run& run = *ticket.run;
  if (!run.outcome().Start(recorder.base_ns())) return;
  if (run.spec().observer != nullptr) run.spec().observer->OnStarted(run);
}

bool CoreStay::IsAlone() const {
  // Every ready or running task is counted before other threads can reach it. So if only this
  // thread's own counts are left, no other thread has any of the run, and this one sees all that
  // they did to it.
  const Run& run = *ticket.run;
  return run.links().waiters == nullptr && run.life().outstanding() == 1 + holds;
}

void CoreStay::BeginTask(uint32_t task) {
  measured =
      (count & measure_mask) == 0 || ticket.run->image().pace(task) != GraphImage::Pace::kShort;
  if (!measured) return;
  // If the end of the task before is known, this one begins then.
  begin_ticks = timed && recorder.unmarked() == 0 ? last_ticks : Ticks();
}

void CoreStay::LearnPace(uint32_t task, uint64_t took) {
  was_long = took > LongTicks();
  typical_ticks = (7 * typical_ticks + std::min(took, LongTicks())) / 8;
  ticket.run->image().SetPace(task, was_long ? GraphImage::Pace::kLong : GraphImage::Pace::kShort);
  if (timed) measure_mask = MeasureMask(std::max(took, typical_ticks));
}

void CoreStay::NotePlain(uint32_t task) {
  const uint64_t now = Ticks();
  const uint64_t took = now - begin_ticks;
  LearnPace(task, took);
  if (!timed) return;
  // A task that is not like those before it has its own time.
  const bool apart = took > TogetherTicks() / 8;
  if (apart) recorder.MarkRow(last_ticks, begin_ticks);
  recorder.AddToRow(task);
  recorder.MarkRow(apart ? begin_ticks : last_ticks, now);
  last_ticks = now;
}

void CoreStay::NoteEnd(uint32_t task, bool failed, int64_t start_ns, int64_t deferred_ns) {
  const Run& run = *ticket.run;
  const uint64_t now = Ticks();
  if (measured) LearnPace(task, now - begin_ticks);
  AddRecord(task, static_cast<uint32_t>(ticket.core),
            failed ? TaskOutcome::kFailed : TaskOutcome::kDone,
            {measured ? begin_ticks : last_ticks, now,
             start_ns != 0 ? start_ns - run.accepted_ns() : -1, deferred_ns});
  last_ticks = now;
}

void CoreStay::NoteDeferred(uint32_t task) {
  Run& run = *ticket.run;
  const uint64_t now = Ticks();
  // If it was not measured, its time counts to the tasks before it.
  const uint64_t start = measured ? begin_ticks : recorder.unmarked() == 0 ? last_ticks : now;
  recorder.MarkRow(last_ticks, start);
  last_ticks = now;
  NoteReturn(run, task);
  LongTask* const long_task = run.long_tasks().Find(task);
  if (long_task == nullptr) return;
  const auto took = static_cast<double>(now - start) * 1000 / TicksPerMicrosecond();
  long_task->start_ns =
      std::max(long_task->returned_ns.load(std::memory_order_relaxed) - static_cast<int64_t>(took),
               run.accepted_ns());
}

void CoreStay::NoteReturn(Run& run, uint32_t task) const {
  if (!timed || !run.long_tasks().used()) return;
  LongTask* const long_task = run.long_tasks().Find(task);
  if (long_task == nullptr) return;
  long_task->core.store(static_cast<uint32_t>(ticket.core), std::memory_order_relaxed);
  long_task->returned_ns.store(scheduler.clock().NowNanos(), std::memory_order_relaxed);
}

void CoreStay::AddRecord(uint32_t task, uint32_t core, TaskOutcome outcome,
                         const TaskRecorder::Stretch& stretch) {
  const Run& run = *ticket.run;
  const RecordLevel level = run.spec().record_level;
  if (level == RecordLevel::kNone ||
      (level == RecordLevel::kFailed && outcome == TaskOutcome::kDone)) {
    return;
  }
  // Records are in the order of their ends.
  if (recorder.has_row()) {
    recorder.MarkRow(last_ticks, stretch.start_ticks);
    last_ticks = stretch.start_ticks;
    if (!recorder.EndRow(chip, static_cast<uint32_t>(ticket.core))) Flush();
  }
  recorder.Add(task, run.image().tasks()[task].chip, core, outcome, stretch);
  if (recorder.full()) Flush();
}

void CoreStay::Flush() {
  Run& run = *ticket.run;
  if (done > 0) run.outcome().AddDone(done);
  if (ended > 0) scheduler.AddEnded(chip, ended);
  done = ended = 0;
  if (recorder.empty()) return;
  const uint64_t now = Ticks();
  recorder.MarkRow(last_ticks, now);
  last_ticks = now;
  const TaskRecorder::Written written =
      recorder.Finish(scheduler.clock().NowNanos(), now, run.accepted_ns());
  size_t waiting = run.records().Add(written.records);
  if (!written.row_tasks.empty()) {
    TaskRow row;
    row.core = static_cast<uint32_t>(ticket.core);
    row.chip = static_cast<uint16_t>(chip);
    row.tasks = written.row_tasks;
    row.marks = written.row_marks;
    waiting = std::max(waiting, run.records().AddRow(row));
  }
  if (waiting != 0 && run.spec().observer != nullptr) run.spec().observer->OnRecords(run, waiting);
  // The next task begins after all this, and must not seem long because of it.
  last_ticks = Ticks();
}

void CoreStay::Push(absl::Span<const uint32_t> tasks) {
  Run& run = *ticket.run;
  alone = false;
  run.life().Add(tasks.size());
  Flush();
  scheduler.Push(run, tasks, false, &group);
}

}  // namespace pto::engine

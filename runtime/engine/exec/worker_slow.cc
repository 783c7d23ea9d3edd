// What a Worker does with tasks that are more than calls of plain kernels.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/ticks.h"
#include "runtime/engine/exec/async_copy.h"
#include "runtime/engine/exec/stop_note.h"
#include "runtime/engine/exec/task_waiter.h"
#include "runtime/engine/exec/thread_host.h"
#include "runtime/engine/exec/worker.h"
#include "runtime/engine/run/task_data.h"

namespace pto {
namespace {

// For the end of a task that has no core.
BlockTicket Nowhere(Run& run, uint32_t task) {
  BlockTicket ticket;
  ticket.run = &run;
  ticket.task = task;
  ticket.core = 0;
  ticket.kind = static_cast<pto_core>(0);  // nothing that follows is for such a core
  ticket.chip = run.image().tasks()[task].chip;
  return ticket;
}

}  // namespace

bool Worker::RunBlockOf(uint32_t chip) {
  BlockTicket ticket;
  if (!scheduler_.TakeFrom(chip, Priority::kLow, 1, &ticket, &stay_.released.local)) return false;
  Execute(ticket);
  RunJoints();
  return true;
}

bool Worker::RunFiber(size_t place) {
  const bool found = TakeFiber(place);
  RunJoints();
  return found;
}

bool Worker::RunErrand(size_t place) {
  const bool found = TakeErrand(place);
  RunJoints();
  return found;
}

bool Worker::TakeFiber(size_t place) {
  FiberBlock* const block = lane_ == nullptr ? nullptr : lane_->Take(place);
  if (block == nullptr) return false;
  if (std::exchange(stay_.left_core, false)) PassOn();
  GoOn(*block);
  return true;
}

bool Worker::TakeErrand(size_t place) {
  Errand* const errand = services_.errands().Take(place);
  if (errand == nullptr) return false;
  if (std::exchange(stay_.left_core, false)) PassOn();
  errand->Do(*this);
  return true;
}

void Worker::BeginRoots(Run& run, bool taking_one) {
  const absl::Span<const uint32_t> roots = run.image().roots();
  if (!run.image().alike() || run.spec().task_timeout_ns > 0) {
    BeginTasks(run, roots, taking_one);
    return;
  }
  run.life().Add(roots.size());
  scheduler_.PushRoots(run, taking_one);
}

void Worker::BeginTasks(Run& run, absl::Span<const uint32_t> tasks, bool taking_one) {
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
    scheduler_.Push(run, tasks, taking_one, &stay_.group);
    return;
  }
  stay_.ticket = Nowhere(run, tasks[0]);
  stay_.chip = stay_.ticket.chip;
  stay_.alone = false;
  stay_.last_ticks = Ticks();
  stay_.recorder.Begin(scheduler_.clock().NowNanos(), stay_.last_ticks);
  for (const uint32_t task : tasks)
    (run.IsSlow(task) ? stay_.released.special : stay_.released.elsewhere).push_back(task);
  SortSpecial();
  PushElsewhere();
  if (!stay_.released.linked.empty()) ReleaseLinked();
}

void Worker::SortSpecial() {
  Run& run = *stay_.ticket.run;
  const GraphImage& image = run.image();
  // Those that are passed by may make others ready, which come behind them.
  size_t errands = 0;
  for (size_t i = 0; i < stay_.released.special.size(); ++i) {
    const uint32_t task = stay_.released.special[i];
    const uint8_t traits = image.tasks()[task].traits;
    run.tasks().counter(task).store(image.calls(task), std::memory_order_relaxed);
    if ((traits & kTaskPredicated) != 0 && !TaskData::PredicateHolds(run, task)) {
      PassOver(task);
    } else if ((traits & kTaskControl) != 0) {
      stay_.released.special[errands++] = task;
    } else if (image.kernel(task).plan != nullptr && BeginJoint(task)) {
      continue;
    } else {
      stay_.released.elsewhere.push_back(task);
    }
  }
  if (!begun_joints_.empty()) PublishJoints();
  if (errands > 0) {
    stay_.alone = false;
    run.life().Add(errands);
    stay_.Flush();
    for (size_t i = 0; i < errands; ++i) {
      services_.errands().Push(
          *new TaskErrand(run, stay_.released.special[i], TaskErrand::Kind::kBegin));
    }
  }
  stay_.released.special.clear();
}

void Worker::PassOver(uint32_t task) {
  Run& run = *stay_.ticket.run;
  if (run.started_ns() == 0) stay_.MarkStarted();
  ++stay_.ended;
  ++stay_.done;
  run.outcome().AddPassedOver();
  if (run.spec().record_level == RecordLevel::kAll) {
    const uint64_t now = Ticks();
    stay_.AddRecord(task, 0, TaskOutcome::kPassedOver, {now, now});
  }
  Release(task, false);
}

LongTask* Worker::BeginLong(const BlockTicket& ticket) {
  Run& run = *ticket.run;
  constexpr uint8_t kLong = kTaskGang | kTaskTimed;
  if ((run.image().tasks()[ticket.task].traits & kLong) == 0 && run.spec().task_timeout_ns == 0) {
    return nullptr;
  }
  return &services_.BeginLong(run, ticket.task);
}

void Worker::BreakBarriers(Services& services, LongTask& long_task) {
  for (Barrier& barrier : long_task.barriers) barrier.Break(services.waits());
}

BlockEnd Worker::CallSlow(Services& services, const BlockTicket& ticket, BlockHost* host,
                          LongTask* long_task, absl::Status* error) {
  if (services.scheduler().trace() != nullptr) services.scheduler().trace()->OnStart(ticket);
  // A task whose time is up does not begin its other blocks.
  if (long_task != nullptr && long_task->late.load(std::memory_order_acquire)) {
    StopNote::LeaveNext(ticket, *long_task);
    return BlockEnd::kFailed;
  }
  const BlockEnd end = BlockRunner::CallSlow(services, ticket, host, long_task, error);
  if (long_task != nullptr) BreakBarriers(services, *long_task);
  return end;
}

void Worker::ExecuteSlow() {
  const BlockTicket ticket = stay_.ticket;
  Run& run = *ticket.run;
  if (run.tasks().has_block_starts()) {
    run.tasks().StartBlock(ticket.task, stay_.recorder.base_ns());
  }
  const uint8_t traits = run.image().tasks()[ticket.task].traits;
  if ((traits & kTaskBlocks) != 0) {
    Services& services = services_;
    services.pool().Run([&services, ticket] { Worker(services).RunOnThread(ticket); });
  } else if ((traits & kTaskWaits) != 0) {
    RunOnFiber();
  } else {
    const int64_t start_ns = stay_.recorder.base_ns();
    absl::Status error;
    const BlockEnd end = CallSlow(services_, ticket, nullptr, BeginLong(ticket), &error);
    EndCall(ticket, end, std::move(error), start_ns, true);
  }
}

void Worker::RunOnFiber() {
  FiberBlock* const block = lane_->New();
  if (block == nullptr) {
    if (LongTask* const long_task = BeginLong(stay_.ticket)) BreakBarriers(services_, *long_task);
    EndCall(stay_.ticket, BlockEnd::kFailed,
            TaskData::BlockError(reason::kStacksExhausted, stay_.ticket, "got no stack", ""),
            stay_.recorder.base_ns(), true);
    return;
  }
  block->services = &services_;
  block->ticket = stay_.ticket;
  block->start_ns = stay_.recorder.base_ns();
  block->long_task = BeginLong(stay_.ticket);
  block->error = absl::OkStatus();
  GoOn(*block);
}

void Worker::GoOn(FiberBlock& block) {
  if (block.fiber->idle()) {
    block.fiber->Start(
        [](void* argument) {
          auto& self = *static_cast<FiberBlock*>(argument);
          self.end = CallSlow(*self.services, self.ticket, &self, self.long_task, &self.error);
        },
        &block);
  } else {
    block.fiber->Resume();
  }
  // While it waits, its core is taken and its task has not ended.
  if (!block.fiber->idle()) return;
  const BlockTicket ticket = block.ticket;
  const BlockEnd end = block.end;
  const int64_t start_ns = block.start_ns;
  absl::Status error = std::move(block.error);
  lane_->Recycle(block);
  EndCall(ticket, end, std::move(error), start_ns, true);
}

void Worker::RunOnThread(const BlockTicket& ticket) {
  const int64_t start_ns = scheduler_.clock().NowNanos();
  ThreadHost host;
  absl::Status error;
  const BlockEnd end = CallSlow(services_, ticket, &host, BeginLong(ticket), &error);
  EndCall(ticket, end, std::move(error), start_ns, false);
}

void Worker::EndCall(const BlockTicket& ticket, BlockEnd end, absl::Status error, int64_t start_ns,
                     bool stay) {
  stay_.Begin(ticket);
  Run& run = *stay_.ticket.run;
  const uint32_t task = stay_.ticket.task;
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  if (end == BlockEnd::kFailed && !run.stopping()) {
    const LongTask* const long_task = run.long_tasks().Find(task);
    // When the task's own time is up, the task says so.
    if (long_task == nullptr || !long_task->late.load(std::memory_order_acquire)) {
      run.outcome().AddError(std::move(error));
    }
    counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  }
  stay_.NoteReturn(run, task);
  const uint32_t before = counter.fetch_sub(1, std::memory_order_acq_rel);
  // Whoever comes to a thread of its own does not look for work when it leaves a core.
  const auto wake = [&] {
    if (!stay && scheduler_.ready() > 0) scheduler_.parking().Wake(1);
  };
  if ((before & ~RunTasks::kFailedBit) != 1) {
    // Others end it. The run may be gone.
    stay_.LeaveCore();
    wake();
    return;
  }
  if (!run.stopping()) {
    if (run.tasks().has_block_starts()) {
      start_ns = run.tasks().block_start_ns(task);
    }
    EndSlow(task, (before & RunTasks::kFailedBit) != 0, start_ns);
    if (stay) {
      // What follows has the core for itself.
      stay_.ticket.core = stay_.ticket.kind == PTO_MIX ? stay_.queue->ClusterOf(stay_.ticket.core)
                                                       : stay_.ticket.core;
      stay_.ticket.member = stay_.ticket.lane = 0;
      stay_.ticket.block_end = 1;
      RunLocal();
    } else if (!stay_.released.local.empty()) {
      GiveAway(stay_.released.local.size());
    }
  }
  stay_.End();
  wake();
}

void Worker::EndDeferred(absl::Status error) {
  Run& run = *stay_.ticket.run;
  const uint32_t task = stay_.ticket.task;
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  // It now keeps the run by itself: what stood for it goes on with other tasks.
  stay_.alone = false;
  run.life().Add();
  if (!error.ok() && !run.stopping()) {
    run.outcome().AddError(std::move(error));
    counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  }
  const uint32_t before = counter.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & ~RunTasks::kFailedBit) != 1) return;
  run.life().TakeBack();
  if (!run.stopping()) EndSlow(task, (before & RunTasks::kFailedBit) != 0, 0);
}

void Worker::EndSlow(uint32_t task, bool failed, int64_t start_ns) {
  Run& run = *stay_.ticket.run;
  int64_t deferred_ns = 0;
  if (const std::unique_ptr<LongTask> ended = services_.EndLong(run, task)) {
    if (start_ns == 0) start_ns = ended->start_ns;
    if (const int64_t returned_ns = ended->returned_ns.load(std::memory_order_relaxed)) {
      deferred_ns = std::max<int64_t>(stay_.recorder.base_ns() - returned_ns, 0);
      // Where it was, of one that ends without a core.
      if (stay_.ticket.kind == 0) stay_.ticket.core = static_cast<int32_t>(ended->core.load());
    }
    if (ended->late.load(std::memory_order_acquire)) {
      run.outcome().AddError(StopNote::TimeIsUp(run, task, *ended));
      failed = true;
    }
  }
  stay_.measured = stay_.timed;
  stay_.begin_ticks = stay_.last_ticks;
  EndTask(task, failed, start_ns, deferred_ns);
}

void Worker::EndDetached(Run& run, uint32_t task) {
  if (!run.stopping()) {
    stay_.Begin(Nowhere(run, task));
    const int64_t start_ns = !run.tasks().has_block_starts() ? 0 : run.tasks().block_start_ns(task);
    const uint32_t counter = run.tasks().counter(task).load(std::memory_order_relaxed);
    EndSlow(task, (counter & RunTasks::kFailedBit) != 0, start_ns);
    stay_.Flush();
  }
  scheduler_.Drop(run);
}

void Worker::BeginControl(Run& run, uint32_t task) {
  if (run.stopping()) {
    scheduler_.Drop(run);
    return;
  }
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  absl::Status done = Control(run, task);
  if (!done.ok()) {
    run.outcome().AddError(std::move(done));
    counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  }
  if ((counter.fetch_sub(1, std::memory_order_acq_rel) & ~RunTasks::kFailedBit) == 1) {
    EndDetached(run, task);
  }
}

absl::Status Worker::Control(Run& run, uint32_t task) {
  const BlockTicket ticket = Nowhere(run, task);
  if (run.started_ns() == 0) stay_.Begin(ticket);
  pto_tensor tensors[2] = {};
  const absl::Span<const uint32_t> args = run.image().args(task);
  for (size_t i = 0; i < args.size() && i < 2; ++i) TaskData::Fill(run, args[i], tensors[i]);
  pto_scalar scalars[PTO_MAX_SCALARS] = {};
  TaskData::FillScalars(run, task, scalars);
  const SignalWord signal{tensors[0].data, tensors[0].dtype};
  const auto invalid = [&](absl::string_view what, int64_t value) {
    return TaskData::TaskError(reason::kScalarInvalid, run, task,
                               absl::StrCat("there is no ", what, " ", value))
        .With("have", value);
  };
  switch (run.image().kernel(task).control) {
    case PTO_CONTROL_NOTIFY:
      if (!IsNotifyOp(scalars[0].i64)) return invalid("notify op", scalars[0].i64);
      if (PTO_FAILPOINT("engine.notify") == FailAction::kDrop) break;
      services_.waits().Notify(signal, static_cast<pto_notify_op>(scalars[0].i64), scalars[1].i64);
      break;
    case PTO_CONTROL_WAIT: {
      if (!IsComparison(scalars[0].i64)) return invalid("comparison", scalars[0].i64);
      if (scalars[2].i64 < 0) return invalid("time of", scalars[2].i64);
      const auto compare = static_cast<pto_compare>(scalars[0].i64);
      if (Compares(compare, signal.Load(), scalars[1].i64)) break;
      Condition::Add(services_, ticket, signal, compare, scalars[1].i64, nullptr, scalars[2].i64,
                     &services_.BeginLong(run, task));
      break;
    }
    case PTO_CONTROL_COPY: {
      LongTask& long_task = services_.BeginLong(run, task);
      std::shared_ptr<AsyncCopy> copy =
          AsyncCopy::Begin(services_, run, tensors[0], tensors[1], AsyncCopy::Notice{});
      const SignalWord done = copy->done();
      Condition::Add(services_, ticket, done, PTO_EQ, 1, std::move(copy), 0, &long_task);
      break;
    }
    default:
      break;
  }
  return absl::OkStatus();
}

}  // namespace pto

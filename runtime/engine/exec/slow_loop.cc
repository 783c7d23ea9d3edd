#include "runtime/engine/exec/slow_loop.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/engine/exec/async_copy.h"
#include "runtime/engine/exec/block_runner.h"
#include "runtime/engine/exec/post_calls.h"
#include "runtime/engine/exec/stop_note.h"
#include "runtime/engine/exec/task_waiter.h"
#include "runtime/engine/exec/thread_host.h"
#include "runtime/engine/exec/worker.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {
namespace {

// A block of the task has ended: it comes to no further barrier, neither of all blocks nor of those
// on its chip.
void BreakBarriers(Services& services, LongTask& long_task, const BlockTicket& ended) {
  if (long_task.barriers.empty()) return;
  long_task.barriers[0].Break(services.waits());
  long_task.barriers[1 + ended.member].Break(services.waits());
}

// Whether a kernel has returned 0 although a call of it did not succeed. It may have computed with
// what was not there.
bool GaveUp(const PostSlot& slot) {
  const PostCalls* const calls = PostCalls::Find(slot);
  return slot.end == PostSlot::End::kDone && calls != nullptr && calls->refused != PTO_OK;
}

// Why a post has failed, with its place.
absl::Status PostError(const PostSlot& slot) {
  BlockTicket place = slot.ticket;
  place.block = slot.failed_block;
  const PostCalls* const calls = PostCalls::Find(slot);
  const bool gave_up = GaveUp(slot);
  // Why a wait failed says more than what the kernel returned.
  if (calls != nullptr && !calls->failure.ok() &&
      (slot.code == PTO_TIMED_OUT || (gave_up && calls->refused == PTO_TIMED_OUT))) {
    return calls->failure;
  }
  if (gave_up) {
    return TaskData::BlockError(
        reason::kKernelFailed, place, "returned 0",
        absl::StrCat("but one of its calls had failed with ", calls->refused, ": ", calls->why));
  }
  if (slot.end == PostSlot::End::kLost) {
    return TaskData::BlockError(reason::kHostLost, place, "was lost", slot.port->why_lost());
  }
  const Reason* const named = FindReason(ReasonOf(slot.status));
  return TaskData::BlockError(named == nullptr ? reason::kKernelFailed : *named, place, "failed",
                              slot.status.message());
}

BlockEnd CallSlow(Services& services, const BlockTicket& ticket, BlockHost* host,
                  LongTask* long_task, absl::Status* error) {
  if (services.scheduler().trace() != nullptr) services.scheduler().trace()->OnStart(ticket);
  // After its deadline a task starts no further block.
  if (long_task != nullptr && long_task->late.load(std::memory_order_acquire)) {
    StopNote::LeaveNext(ticket, *long_task);
    return BlockEnd::kFailed;
  }
  const BlockEnd end = BlockRunner::CallSlow(services, ticket, host, long_task, error);
  if (long_task != nullptr) BreakBarriers(services, *long_task, ticket);
  return end;
}

}  // namespace

void SlowLoop::EndConditions(const BlockTicket& ticket, LongTask* long_task) {
  if (long_task == nullptr) return;
  for (Waiter* const waiter : ticket.run->long_tasks().ClaimOf(*long_task, ticket)) {
    services_.waits().End(*waiter, WaitEnd::kCancelled);
  }
}

LongTask* SlowLoop::BeginLong(const BlockTicket& ticket) {
  Run& run = *ticket.run;
  constexpr uint8_t kLong = kTaskGang | kTaskTimed;
  if ((run.image().tasks()[ticket.task].traits & kLong) == 0 && run.spec().task_timeout_ns == 0) {
    return nullptr;
  }
  return &services_.BeginLong(run, ticket.task);
}

void SlowLoop::ExecuteSlow(CoreStay& stay) {
  const BlockTicket ticket = stay.ticket;
  Run& run = *ticket.run;
  if (run.tasks().has_block_starts()) {
    run.tasks().StartBlock(ticket.task, stay.recorder.base_ns());
  }
  const uint8_t traits = run.image().tasks()[ticket.task].traits;
  if ((traits & kTaskBlocks) != 0) {
    const GraphImage& image = run.image();
    if (LanePort* const lane = image.lane(image.kernel_index(ticket.task, ticket.cluster_lane))) {
      outgoing_.push_back({lane, ticket, BeginLong(ticket), stay.recorder.base_ns()});
      return;
    }
    Services& services = services_;
    services.pool().Run([&services, ticket] {
      Completions completions;
      Worker(services, &completions).RunOnThread(ticket);
    });
  } else if ((traits & kTaskWaits) != 0) {
    RunOnFiber(stay);
  } else {
    const int64_t start_ns = stay.recorder.base_ns();
    absl::Status error;
    const BlockEnd end = CallSlow(services_, ticket, nullptr, BeginLong(ticket), &error);
    EndCall(stay, ticket, end, std::move(error), start_ns, true);
  }
}

void SlowLoop::RunOnFiber(CoreStay& stay) {
  FiberBlock* const block = fibers_->New();
  if (block == nullptr) {
    if (LongTask* const long_task = BeginLong(stay.ticket)) {
      BreakBarriers(services_, *long_task, stay.ticket);
    }
    EndCall(stay, stay.ticket, BlockEnd::kFailed,
            TaskData::BlockError(reason::kStacksExhausted, stay.ticket, "got no stack", ""),
            stay.recorder.base_ns(), true);
    return;
  }
  block->services = &services_;
  block->ticket = stay.ticket;
  block->start_ns = stay.recorder.base_ns();
  block->long_task = BeginLong(stay.ticket);
  block->error = absl::OkStatus();
  GoOn(stay, *block);
}

void SlowLoop::GoOn(CoreStay& stay, FiberBlock& block) {
  stay.ShowPlace(block.ticket);
  block.left.store(false, std::memory_order_relaxed);
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
  // A block that waits keeps its core. From here on another thread may resume it.
  if (!block.fiber->idle()) {
    block.left.store(true, std::memory_order_release);
    return;
  }
  const BlockTicket ticket = block.ticket;
  const BlockEnd end = block.end;
  const int64_t start_ns = block.start_ns;
  absl::Status error = std::move(block.error);
  fibers_->Recycle(block);
  EndCall(stay, ticket, end, std::move(error), start_ns, true);
}

void SlowLoop::ShowPosted(const BlockTicket& ticket, bool posted) {
  const ReadyQueue& queue = scheduler_.queue(ticket.chip);
  const int32_t core = ticket.kind == PTO_MIX ? queue.ClusterOf(ticket.core) : ticket.core;
  queue.own_view(core).wait.store(posted ? CoreView::kPosted : CoreView::kNeverWaited,
                                  std::memory_order_relaxed);
}

void SlowLoop::Post(CoreStay& stay) {
  // Blocks that are refused may lead to other tasks, but never to more blocks here.
  while (!outgoing_.empty()) {
    LanePort& lane = *outgoing_.front().port;
    batch_.clear();
    size_t others = 0;
    for (const LanePort::Outgoing& block : outgoing_) {
      if (block.port == &lane) {
        batch_.push_back(block);
      } else {
        outgoing_[others++] = block;
      }
    }
    outgoing_.resize(others);
    for (const LanePort::Outgoing& block : batch_) {
      ShowPosted(block.ticket, true);
      if (scheduler_.trace() != nullptr) scheduler_.trace()->OnStart(block.ticket);
    }
    // Before, because the lane may be gone when Post returns.
    last_lane_ = lane.weak_from_this();
    lane.Post(absl::MakeSpan(batch_));
    for (const LanePort::Outgoing& block : batch_) {
      if (block.refusal != LanePort::Outgoing::Refusal::kNone) refused_.push_back(block);
    }
  }
  for (size_t i = 0; i < refused_.size(); ++i) {
    const LanePort::Outgoing block = refused_[i];
    EndRefused(stay, block);
  }
  refused_.clear();
}

void SlowLoop::EndRefused(CoreStay& stay, const LanePort::Outgoing& block) {
  ShowPosted(block.ticket, false);
  absl::Status error;
  if (block.refusal == LanePort::Outgoing::Refusal::kLate) {
    StopNote::LeaveNext(block.ticket, *block.long_task);
  } else if (block.refusal == LanePort::Outgoing::Refusal::kLost) {
    error = TaskData::BlockError(reason::kHostLost, block.ticket, "could not start",
                                 block.port->why_lost());
  }
  if (block.long_task != nullptr) BreakBarriers(services_, *block.long_task, block.ticket);
  EndCall(stay, block.ticket, BlockEnd::kFailed, std::move(error), block.start_ns, true);
}

void SlowLoop::EndPost(CoreStay& stay, PostSlot& slot) {
  const BlockTicket ticket = slot.ticket;
  const Run& run = *ticket.run;
  LongTask* const long_task = slot.long_task;
  const int64_t start_ns = slot.start_ns;
  const BlockEnd end =
      slot.end == PostSlot::End::kDone && !GaveUp(slot) ? BlockEnd::kDone : BlockEnd::kFailed;
  absl::Status error;
  if (end == BlockEnd::kFailed) {
    error = PostError(slot);
    // Perhaps nobody is left who could satisfy them.
    const PostCalls* const calls = PostCalls::Find(slot);
    if (calls != nullptr && calls->conditions > 0) EndConditions(ticket, long_task);
  }
  if (run.stopping() || (long_task != nullptr && long_task->late.load(std::memory_order_acquire))) {
    const std::string said = slot.end == PostSlot::End::kLost ? slot.port->why_lost()
                                                              : std::string(slot.status.message());
    StopNote::Leave(ticket, long_task, slot.start_ticks, said, error);
  }
  slot.status = absl::OkStatus();
  slot.detail.reset();
  slot.port->Recycle(slot);
  // Other cores of a cluster may still be posted.
  if (run.image().cluster_lanes(ticket.task) == 1) ShowPosted(ticket, false);
  if (long_task != nullptr) BreakBarriers(services_, *long_task, ticket);
  EndCall(stay, ticket, end, std::move(error), start_ns, true);
}

void SlowLoop::RunOnThread(CoreStay& stay, const BlockTicket& ticket) {
  const int64_t start_ns = scheduler_.clock().NowNanos();
  ThreadHost host;
  absl::Status error;
  const BlockEnd end = CallSlow(services_, ticket, &host, BeginLong(ticket), &error);
  EndCall(stay, ticket, end, std::move(error), start_ns, false);
}

void SlowLoop::EndCall(CoreStay& stay, const BlockTicket& ticket, BlockEnd end, absl::Status error,
                       int64_t start_ns, bool keeps_core) {
  stay.Begin(ticket);
  Run& run = *stay.ticket.run;
  const uint32_t task = stay.ticket.task;
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  if (end == BlockEnd::kFailed && !run.stopping()) {
    const LongTask* const long_task = run.long_tasks().Find(task);
    // After the deadline of the task, EndSlow reports that instead.
    if (long_task == nullptr || !long_task->late.load(std::memory_order_acquire)) {
      run.outcome().AddError(std::move(error));
    }
    counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  }
  stay.NoteReturn(run, task);
  const uint32_t calls = ticket.block_end - ticket.block;
  const uint32_t before = counter.fetch_sub(calls, std::memory_order_acq_rel);
  // A thread of the blocking pool does not look for work when it leaves a core.
  const auto wake = [&] {
    if (!keeps_core && scheduler_.ready() > 0) scheduler_.parking().Wake(1);
  };
  if ((before & ~RunTasks::kFailedBit) != calls) {
    // Another thread ends the task. The run may be gone.
    stay.LeaveCore();
    wake();
    return;
  }
  if (!run.stopping()) {
    if (run.tasks().has_block_starts()) {
      start_ns = run.tasks().block_start_ns(task);
    }
    flow_.EndSlow(stay, task, (before & RunTasks::kFailedBit) != 0, start_ns);
    if (keeps_core) {
      // The tasks that follow have the whole core.
      stay.ticket.core =
          stay.ticket.kind == PTO_MIX ? stay.queue->ClusterOf(stay.ticket.core) : stay.ticket.core;
      stay.ticket.member = stay.ticket.cluster_lane = 0;
      stay.ticket.block_end = 1;
      if (!stay.released.local.empty()) services_.lane_news().PassOn();
      plain_.RunLocal(stay);
    } else if (!stay.released.local.empty()) {
      flow_.GiveAway(stay, stay.released.local.size());
    }
  }
  stay.End();
  wake();
}

void SlowLoop::EndDetached(CoreStay& stay, Run& run, uint32_t task) {
  if (!run.stopping()) {
    stay.Begin(CoreStay::Nowhere(run, task));
    const int64_t start_ns = !run.tasks().has_block_starts() ? 0 : run.tasks().block_start_ns(task);
    const uint32_t counter = run.tasks().counter(task).load(std::memory_order_relaxed);
    flow_.EndSlow(stay, task, (counter & RunTasks::kFailedBit) != 0, start_ns);
    stay.Flush();
  }
  stay.Drop(run);
}

void SlowLoop::BeginControl(CoreStay& stay, Run& run, uint32_t task) {
  if (run.stopping()) {
    stay.Drop(run);
    return;
  }
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  absl::Status done = Control(stay, run, task);
  if (!done.ok()) {
    run.outcome().AddError(std::move(done));
    counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  }
  if ((counter.fetch_sub(1, std::memory_order_acq_rel) & ~RunTasks::kFailedBit) == 1) {
    EndDetached(stay, run, task);
  }
}

absl::Status SlowLoop::Control(CoreStay& stay, Run& run, uint32_t task) {
  const BlockTicket ticket = CoreStay::Nowhere(run, task);
  if (run.started_ns() == 0) stay.Begin(ticket);
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

}  // namespace pto::engine

#include "runtime/engine/exec/task_waiter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "runtime/base/error.h"
#include "runtime/engine/exec/worker.h"
#include "runtime/engine/run/task_data.h"
#include "runtime/engine/signal/foreign_memory.h"

namespace pto::engine {

TaskWaiter::TaskWaiter(Services& services, const BlockTicket& ticket, const SignalWord& signal,
                       pto_compare compare, int64_t value, std::shared_ptr<AsyncCopy> copy)
    : Waiter(signal, compare, value),
      TaskWaiterLink(ticket, *this),
      services_(services),
      copy_(std::move(copy)) {
  if (copy_ != nullptr) return;
  if (signal.foreign() || ForeignMemory::OfProcess().Contains(signal.address)) {
    set_foreign(ticket.run->account().get());
  }
}

bool TaskWaiter::Begin(int64_t timeout_ns, LongTask* long_task) {
  Run& run = *ticket_.run;
  timeout_ns_ = timeout_ns > 0 ? timeout_ns : run.spec().wait_timeout_ns;
  WaitTable& waits = services_.waits();
  absl::optional<WaitEnd> ends;
  const bool entered = waits.Add(*this, [&] {
    const int64_t now = services_.clock().NowNanos();
    const int64_t until_ns = services_.DeadlineAfter(now, timeout_ns_);
    Show(now, until_ns);
    services_.BeginWait(run, *this, long_task, until_ns);
    // Whoever stops the run, or the task, says so before it looks for waits: either it finds this
    // one, or it is seen here.
    if (!OnBegin() || run.stopping()) {
      ends = WaitEnd::kCancelled;
    } else if (long_task != nullptr && long_task->late.load(std::memory_order_acquire)) {
      ends = WaitEnd::kTimedOut;
    }
    if (ends.has_value() && !Claim()) ends.reset();
  });
  if (!entered) return false;
  // Unless it was claimed above, this may be gone.
  if (ends.has_value()) waits.End(*this, *ends);
  return true;
}

void TaskWaiter::Show(int64_t now_ns, int64_t until_ns) {
  WaitNote note;
  note.kind = kind();
  note.run = ticket_.run;
  note.task = ticket_.task;
  note.block = ticket_.block;
  note.chip = ticket_.chip;
  if (note.kind == WaitNote::Kind::kBlock) note.core = ticket_.core;
  note.address = signal().address;
  note.dtype = signal().dtype;
  note.compare = static_cast<uint32_t>(compare());
  note.value = value();
  if (copy_ != nullptr) note.copy_bytes = copy_->bytes();
  note.since_ns = now_ns;
  note.until_ns = until_ns;
  place_ = services_.scheduler().board().Add(note);
}

void TaskWaiter::OnEnd(WaitEnd end) {
  // First: while the note is there, the task does nothing.
  services_.scheduler().board().Remove(place_);
  ticket_.run->long_tasks().Remove(*this);
  OnDone(end);
}

std::string TaskWaiter::Describe() const {
  const Run& run = *ticket_.run;
  const std::string rank =
      TaskData::MemberCount(run.image(), ticket_.task) == 1
          ? ""
          : absl::StrCat(" of rank ", ticket_.member, " on chips/", ticket_.chip);
  return absl::StrCat("block ", ticket_.block, rank, " waited for ", DescribeSignal());
}

std::string TaskWaiter::DescribeSignal() const {
  if (copy_ != nullptr) return copy_->Describe();
  const Run& run = *ticket_.run;
  const std::string name = TaskData::NameOf(run, ticket_.task, signal().address);
  if (name == TaskData::kElsewhere && (run.image().tasks()[ticket_.task].traits & kTaskGang) != 0) {
    return "the others at a barrier";
  }
  return absl::StrCat(name, " ", CompareText(compare()), " ", Text(value()), ", had ",
                      Text(signal().Load()));
}

std::string TaskWaiter::Text(int64_t value) const {
  return signal().foreign() ? absl::StrCat(static_cast<uint64_t>(value)) : absl::StrCat(value);
}

absl::Status TaskWaiter::TimedOut() const {
  const Run& run = *ticket_.run;
  const std::string time = absl::FormatDuration(absl::Nanoseconds(timeout_ns_));
  const std::string text = absl::StrCat(Describe(), " after ", time);
  Error error(reason::kWaitTimeout, absl::StrCat(TaskData::Subject(run, ticket_.task), text));
  TaskData::AddPlace(ticket_, &error);
  error.With("timeout", time);
  if (copy_ == nullptr) {
    error.With("signal", TaskData::NameOf(run, ticket_.task, signal().address))
        .With("have", Text(signal().Load()))
        .With("want", absl::StrCat(CompareText(compare()), " ", Text(value())));
  }
  return error;
}

void Condition::Add(Services& services, const BlockTicket& ticket, const SignalWord& signal,
                    pto_compare compare, int64_t value, std::shared_ptr<AsyncCopy> copy,
                    int64_t timeout_ns, LongTask* long_task, absl::optional<HostCharge> of_call) {
  std::atomic<uint32_t>& counter = ticket.run->tasks().counter(ticket.task);
  counter.fetch_add(1, std::memory_order_relaxed);
  auto* const condition = new Condition(services, ticket, signal, compare, value, std::move(copy));
  if (of_call.has_value()) {
    condition->charge_ = *std::move(of_call);
    condition->ListWithCall();
  }
  if (condition->Begin(timeout_ns, long_task)) return;
  counter.fetch_sub(1, std::memory_order_acq_rel);
  delete condition;
}

void Condition::OnDone(WaitEnd end) {
  Run& run = *ticket_.run;
  std::atomic<uint32_t>& counter = run.tasks().counter(ticket_.task);
  if (end == WaitEnd::kTimedOut && !run.stopping()) {
    // When the task's own time is up, the task says so.
    const LongTask* const long_task = run.long_tasks().Find(ticket_.task);
    if (long_task == nullptr || !long_task->late.load(std::memory_order_acquire)) {
      run.outcome().AddError(TimedOut());
    }
    counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  }
  const uint32_t before = counter.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & ~RunTasks::kFailedBit) == 1) {
    services_.errands().Push(*new TaskErrand(run, ticket_.task, TaskErrand::Kind::kEnd));
  }
  delete this;
}

void TaskErrand::Do(Worker& worker, Completions&) {
  if (kind_ == Kind::kBegin) {
    worker.BeginControl(run(), task_);
  } else {
    worker.EndDetached(run(), task_);
  }
  delete this;
}

}  // namespace pto::engine

#include "runtime/engine/exec/kernel_api.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/log.h"
#include "runtime/engine/exec/block_state.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/exec/task_waiter.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {
namespace {

int32_t Refuse(BlockState& state, pto_result result, absl::string_view text) {
  // What the kernel says itself is better.
  if (state.rare().error.empty()) state.rare().error = std::string(text);
  return result;
}

int32_t NotAllowed(BlockState& state, absl::string_view call) {
  return Refuse(state, PTO_NOT_ALLOWED,
                absl::StrCat("it calls ", call, ", but does not say that it waits or blocks"));
}

SignalWord WordOf(const pto_signal* signal) {
  return signal == nullptr ? SignalWord{} : SignalWord{signal->address, signal->dtype};
}

int32_t CheckWait(BlockState& state, const SignalWord& signal, pto_compare compare, int64_t timeout,
                  bool foreign_too = false) {
  if (!signal.valid() && !(foreign_too && signal.valid_foreign())) {
    return Refuse(state, PTO_INVALID, "a signal is an aligned word of type I32 or I64");
  }
  if (!IsComparison(compare)) {
    return Refuse(state, PTO_INVALID, absl::StrCat("there is no comparison ", compare));
  }
  return timeout >= 0 ? PTO_OK : Refuse(state, PTO_INVALID, "a time is not negative");
}

// What the daemon says about who can still send a signal relies on this.
int32_t CheckNotify(BlockState& state, const SignalWord& signal) {
  const uint32_t task = state.ticket->task;
  if (!TaskData::Notifies(state.run->image(), task)) {
    return Refuse(state, PTO_NOT_ALLOWED, "it notifies, but does not say that it does");
  }
  if (TaskData::Reaches(*state.run, task, signal.address)) return PTO_OK;
  return Refuse(state, PTO_INVALID, "a kernel notifies words of its task's tensors only");
}

// Waits for a signal, or for a copy that has one.
int32_t WaitFor(BlockState& state, const SignalWord& signal, pto_compare compare, int64_t value,
                std::shared_ptr<AsyncCopy> copy, int64_t timeout) {
  BlockWaiter waiter(*state.services, *state.ticket, signal, compare, value, std::move(copy));
  // Tasks that need the core are not to count on it meanwhile.
  const BlockTicket& ticket = *state.ticket;
  const ReadyQueue& queue = state.services->scheduler().queue(ticket.chip);
  std::atomic<uint32_t>& shown =
      queue.own_view(ticket.kind == PTO_MIX ? queue.ClusterOf(ticket.core) : ticket.core).wait;
  shown.store(CoreView::kWaits, std::memory_order_relaxed);
  const WaitEnd end = waiter.Wait(*state.host, timeout, state.long_task);
  shown.store(CoreView::kWaited, std::memory_order_relaxed);
  switch (end) {
    case WaitEnd::kHolds:
      return PTO_OK;
    case WaitEnd::kTimedOut:
      state.rare().failure = waiter.TimedOut();
      return PTO_TIMED_OUT;
    case WaitEnd::kCancelled:
      break;
  }
  return PTO_CANCELLED;
}

}  // namespace

int KernelApi::Cancelled(const pto_context* context) {
  const BlockState& state = BlockState::Of(context);
  if (state.stop->load(std::memory_order_relaxed)) return 1;
  return state.long_task != nullptr && state.long_task->late.load(std::memory_order_relaxed) ? 1
                                                                                             : 0;
}

void KernelApi::Log(const pto_context* context, pto_log_level level, const char* text) {
  const BlockState& state = BlockState::Of(context);
  const auto ours = static_cast<LogLevel>(std::clamp<int>(level, PTO_LOG_DEBUG, PTO_LOG_ERROR));
  if (!LogEnabled(ours)) return;
  pto::Log(
      ours, __FILE__, __LINE__, text == nullptr ? "" : text,
      {{"run", state.run->name()}, {"task", state.ticket->task}, {"block", state.ticket->block}});
}

void KernelApi::SetError(const pto_context* context, const char* text) {
  BlockState::Of(context).rare().error = text == nullptr ? "" : text;
}

int32_t KernelApi::Wait(const pto_context* context, const pto_signal* signal, pto_compare compare,
                        int64_t value, int64_t timeout) {
  BlockState& state = BlockState::Of(context);
  const SignalWord word = WordOf(signal);
  if (const int32_t refused = CheckWait(state, word, compare, timeout)) return refused;
  if (state.host == nullptr) return NotAllowed(state, "wait");
  return WaitFor(state, word, compare, value, nullptr, timeout);
}

int32_t KernelApi::Notify(const pto_context* context, const pto_signal* signal, pto_notify_op op,
                          int64_t value) {
  BlockState& state = BlockState::Of(context);
  const SignalWord word = WordOf(signal);
  if (!word.valid()) {
    return Refuse(state, PTO_INVALID, "a signal is an aligned word of type I32 or I64");
  }
  if (!IsNotifyOp(op))
    return Refuse(state, PTO_INVALID, absl::StrCat("there is no notify op ", op));
  if (const int32_t refused = CheckNotify(state, word)) return refused;
  if (PTO_FAILPOINT("engine.notify") == FailAction::kDrop) return PTO_OK;
  state.services->waits().Notify(word, op, value);
  return PTO_OK;
}

int32_t KernelApi::Meet(const pto_context* context, pto_scope scope) {
  BlockState& state = BlockState::Of(context);
  if (scope != PTO_SCOPE_CHIP && scope != PTO_SCOPE_TASK) {
    return Refuse(state, PTO_INVALID, absl::StrCat("there is no scope ", scope));
  }
  if (state.host == nullptr) return NotAllowed(state, "barrier");
  const uint32_t task = state.ticket->task;
  if (state.run->image().calls(task) == 1) return PTO_OK;
  if ((state.run->image().tasks()[task].traits & kTaskGang) == 0) {
    return Refuse(state, PTO_NOT_ALLOWED,
                  "it calls barrier, but the task's blocks do not start together");
  }
  Barrier& barrier =
      state.long_task->barriers[scope == PTO_SCOPE_TASK ? 0 : 1 + state.ticket->member];
  const auto broken = [&] {
    return Refuse(state, PTO_BROKEN, "a block of the task has ended before the barrier");
  };
  WaitTable& waits = state.services->waits();
  const Barrier::Arrival arrival = barrier.Arrive(waits);
  if (arrival.kind == Barrier::Arrival::kPassed) return PTO_OK;
  if (arrival.kind == Barrier::Arrival::kBroken) return broken();
  const int32_t result =
      WaitFor(state, barrier.signal(), PTO_GE, arrival.meeting, nullptr, /*timeout=*/0);
  if (result == PTO_OK) return barrier.Met(arrival.meeting) ? PTO_OK : broken();
  if (result == PTO_TIMED_OUT) {
    state.rare().failure = TaskData::BlockError(
        reason::kWaitTimeout, *state.ticket, "waited too long",
        absl::StrCat(barrier.arrived(), " of ", barrier.expected(), " came to the barrier"));
  }
  // The others wait for this one, which gives up.
  barrier.Break(waits);
  return result;
}

int32_t KernelApi::Copy(const pto_context* context, const pto_tensor* to, const pto_tensor* from,
                        const pto_signal* done, pto_notify_op op, int64_t value, pto_event* event) {
  BlockState& state = BlockState::Of(context);
  if (to == nullptr || from == nullptr || to->dtype != from->dtype || to->ndim != from->ndim ||
      to->ndim > PTO_MAX_DIMS || kernels::DtypeSize(to->dtype) == 0 ||
      !std::equal(to->shape, to->shape + to->ndim, from->shape)) {
    return Refuse(state, PTO_INVALID, "a copy is between tensors of one shape and type");
  }
  AsyncCopy::Notice notice{WordOf(done), op, value};
  if (done != nullptr && (!notice.signal.valid() || !IsNotifyOp(op))) {
    return Refuse(state, PTO_INVALID, "a copy notifies an aligned word of type I32 or I64");
  }
  if (done != nullptr) {
    if (const int32_t refused = CheckNotify(state, notice.signal)) return refused;
  }
  if (!TaskData::Owns(*state.run, state.ticket->task, *to) ||
      !TaskData::Owns(*state.run, state.ticket->task, *from)) {
    return Refuse(state, PTO_INVALID, "a copy is between buffers that the task uses");
  }
  std::shared_ptr<AsyncCopy> copy =
      AsyncCopy::Begin(*state.services, *state.run, *to, *from, notice);
  if (event == nullptr) return PTO_OK;
  state.rare().copies.push_back(std::move(copy));
  *event = state.rare().copies.size();
  return PTO_OK;
}

int32_t KernelApi::WaitCopy(const pto_context* context, pto_event event, int64_t timeout) {
  BlockState& state = BlockState::Of(context);
  if (event == 0 || event > state.rare().copies.size() || timeout < 0) {
    return Refuse(state, PTO_INVALID, absl::StrCat("the block began no copy ", event));
  }
  if (state.host == nullptr) return NotAllowed(state, "wait_copy");
  std::shared_ptr<AsyncCopy> copy = state.rare().copies[event - 1];
  const SignalWord done = copy->done();
  return WaitFor(state, done, PTO_EQ, 1, std::move(copy), timeout);
}

// Makes the task's end depend on something more than its calls.
static void BeginDeferring(BlockState& state, std::atomic<uint32_t>& counter) {
  if (!state.counted) {
    // The only call of a plain task, which nobody else counts yet.
    counter.store(1, std::memory_order_relaxed);
    state.counted = state.deferred = true;
  }
  if (state.long_task == nullptr) {
    state.long_task = &state.services->BeginLong(*state.run, state.ticket->task);
  }
}

int32_t KernelApi::Defer(const pto_context* context, const pto_signal* signal, pto_compare compare,
                         int64_t value, int64_t timeout) {
  BlockState& state = BlockState::Of(context);
  const SignalWord word = WordOf(signal);
  if (const int32_t refused = CheckWait(state, word, compare, timeout, true)) return refused;
  if (word.Compares(compare, word.Load(), value)) return PTO_OK;
  BeginDeferring(state, state.run->tasks().counter(state.ticket->task));
  Condition::Add(*state.services, *state.ticket, word, compare, value, nullptr, timeout,
                 state.long_task);
  return PTO_OK;
}

int32_t KernelApi::DeferCopy(const pto_context* context, pto_event event, int64_t timeout) {
  BlockState& state = BlockState::Of(context);
  if (event == 0 || event > state.rare().copies.size() || timeout < 0) {
    return Refuse(state, PTO_INVALID, absl::StrCat("the block began no copy ", event));
  }
  std::shared_ptr<AsyncCopy> copy = state.rare().copies[event - 1];
  const SignalWord done = copy->done();
  if (done.Load() == 1) return PTO_OK;
  BeginDeferring(state, state.run->tasks().counter(state.ticket->task));
  Condition::Add(*state.services, *state.ticket, done, PTO_EQ, 1, std::move(copy), timeout,
                 state.long_task);
  return PTO_OK;
}

const pto_kernel_api KernelApi::kTable = {
    .struct_size = sizeof(pto_kernel_api),
    .abi_version = PTO_KERNEL_ABI_VERSION,
    .cancelled = &KernelApi::Cancelled,
    .log = &KernelApi::Log,
    .set_error = &KernelApi::SetError,
    .wait = &KernelApi::Wait,
    .notify = &KernelApi::Notify,
    .barrier = &KernelApi::Meet,
    .copy = &KernelApi::Copy,
    .wait_copy = &KernelApi::WaitCopy,
    .defer = &KernelApi::Defer,
    .defer_copy = &KernelApi::DeferCopy,
};

}  // namespace pto::engine

#include "runtime/engine/exec/lane_calls.h"

#include <algorithm>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/memory_account.h"
#include "runtime/engine/exec/async_copy.h"
#include "runtime/engine/exec/lane_waiter.h"
#include "runtime/engine/exec/post_calls.h"
#include "runtime/engine/exec/task_waiter.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {
namespace {

void Refuse(PostSlot& slot, LaneAnswer& answer, pto_result result, absl::string_view why) {
  answer.result = result;
  answer.text = std::string(why);
  LaneWaiter::Answer(slot, answer);
}

SignalWord WordOf(const pto_signal& signal) { return {signal.address, signal.dtype}; }

// About what the engine needs for each, with the places where others look them up.
constexpr uint64_t kCopyBytes = 1024;
constexpr uint64_t kConditionBytes = 1024;

// Charges the run's account for what a kernel makes the engine keep.
absl::StatusOr<HostCharge> Charge(const PostSlot& slot, uint64_t bytes, absl::string_view what) {
  const Account* const account = slot.ticket.run->account().get();
  return HostCharge::Take(account == nullptr ? nullptr : account->memory(), bytes, what);
}

uint64_t BytesOf(const SignalWord& word) { return kernels::DtypeSize(word.dtype); }

// Why a signal must not be used for waits; empty if it may.
std::string WrongWait(const PostSlot& slot, const LaneCall& call, bool foreign_too) {
  const SignalWord word = WordOf(call.signal);
  if (!word.valid() && !(foreign_too && word.valid_foreign())) {
    return "a signal is an aligned word of type I32 or I64";
  }
  if (!IsComparison(call.how)) return absl::StrCat("there is no comparison ", call.how);
  if (call.timeout_ns < 0) return "a time is not negative";
  // Foreign code may announce the end of its work in any memory of the run.
  const Run& run = *slot.ticket.run;
  const bool known = word.foreign()
                         ? TaskData::Holds(run, word.address, BytesOf(word))
                         : TaskData::Reaches(run, slot.ticket.task, word.address, BytesOf(word));
  return known ? "" : "a kernel in a host waits for words of its task's tensors only";
}

// Why a notice is not allowed; OK if it is.
pto_result CheckNotice(const PostSlot& slot, const LaneCall& call, std::string* why) {
  const Run& run = *slot.ticket.run;
  const SignalWord word = WordOf(call.signal);
  if (!word.valid()) {
    *why = "a signal is an aligned word of type I32 or I64";
    return PTO_INVALID;
  }
  if (!IsNotifyOp(call.how)) {
    *why = absl::StrCat("there is no notify op ", call.how);
    return PTO_INVALID;
  }
  if (!TaskData::Notifies(run.image(), slot.ticket.task)) {
    *why = "it notifies, but does not say that it does";
    return PTO_NOT_ALLOWED;
  }
  if (TaskData::Reaches(run, slot.ticket.task, word.address, BytesOf(word))) return PTO_OK;
  *why = "a kernel notifies words of its task's tensors only";
  return PTO_INVALID;
}

// Whether a view can be used at all: its elements are aligned, and its end is computed without
// overflow. With `apart`, it has no more elements than its memory, so that the time of a copy is
// bounded.
bool IsView(const pto_tensor& tensor, bool apart) {
  const uint64_t size = kernels::DtypeSize(tensor.dtype);
  if (tensor.ndim > PTO_MAX_DIMS || size == 0) return false;
  if (reinterpret_cast<uintptr_t>(tensor.data) % size != 0) return false;
  absl::uint128 elements = 1;
  absl::uint128 extent = 1;
  for (uint32_t d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] < 0 || tensor.strides[d] < 1) return false;
    if (tensor.shape[d] == 0) return true;
    // Each factor is less than 2^63, so the first product that is too large is found.
    const absl::uint128 last = static_cast<uint64_t>(tensor.shape[d] - 1);
    extent += last * static_cast<uint64_t>(tensor.strides[d]);
    elements *= static_cast<uint64_t>(tensor.shape[d]);
    if (extent > INT64_MAX / 8 || elements > INT64_MAX / 8) return false;
  }
  return !apart || elements <= extent;
}

bool IsEmpty(const pto_tensor& tensor) {
  return std::count(tensor.shape, tensor.shape + tensor.ndim, 0) > 0;
}

}  // namespace

void LaneCalls::EndWait(Waiter& waiter) { services_.waits().End(waiter, WaitEnd::kCancelled); }

void LaneCalls::Handle(PostSlot& slot, const LaneCall& call) {
  LaneAnswer answer;
  answer.id = call.id;
  answer.token = call.token;
  switch (call.kind) {
    case LaneCall::Kind::kWait:
      return Wait(slot, call, std::move(answer));
    case LaneCall::Kind::kNotify:
      return Notify(slot, call, std::move(answer));
    case LaneCall::Kind::kBarrier:
      return Meet(slot, call, std::move(answer));
    case LaneCall::Kind::kCopy:
      return Copy(slot, call, std::move(answer));
    case LaneCall::Kind::kWaitCopy:
      return WaitCopy(slot, call, std::move(answer));
    case LaneCall::Kind::kDefer:
      return Defer(slot, call, std::move(answer));
    case LaneCall::Kind::kDeferCopy:
      return DeferCopy(slot, call, std::move(answer));
  }
  Refuse(slot, answer, PTO_INVALID, "there is no such call");
}

void LaneCalls::Wait(PostSlot& slot, const LaneCall& call, LaneAnswer answer) {
  if (std::string wrong = WrongWait(slot, call, /*foreign_too=*/false); !wrong.empty()) {
    return Refuse(slot, answer, PTO_INVALID, wrong);
  }
  LaneWaiter::Begin(services_, slot, answer, WordOf(call.signal),
                    static_cast<pto_compare>(call.how), call.value, nullptr, call.timeout_ns);
}

void LaneCalls::Notify(PostSlot& slot, const LaneCall& call, LaneAnswer answer) {
  std::string why;
  if (const pto_result wrong = CheckNotice(slot, call, &why); wrong != PTO_OK) {
    return Refuse(slot, answer, wrong, why);
  }
  if (PTO_FAILPOINT("engine.notify") != FailAction::kDrop) {
    services_.waits().Notify(WordOf(call.signal), static_cast<pto_notify_op>(call.how), call.value);
  }
  LaneWaiter::Answer(slot, answer);
}

void LaneCalls::Meet(PostSlot& slot, const LaneCall& call, LaneAnswer answer) {
  if (call.how != PTO_SCOPE_CHIP && call.how != PTO_SCOPE_TASK) {
    return Refuse(slot, answer, PTO_INVALID, absl::StrCat("there is no scope ", call.how));
  }
  const GraphImage& image = slot.ticket.run->image();
  const uint32_t task = slot.ticket.task;
  if (image.calls(task) == 1) return LaneWaiter::Answer(slot, answer);
  if ((image.tasks()[task].traits & kTaskGang) == 0) {
    return Refuse(slot, answer, PTO_NOT_ALLOWED,
                  "it calls barrier, but the task's blocks do not start together");
  }
  Barrier& barrier =
      slot.long_task->barriers[call.how == PTO_SCOPE_TASK ? 0 : 1 + slot.ticket.member];
  const Barrier::Arrival arrival = barrier.Arrive(services_.waits());
  if (arrival.kind == Barrier::Arrival::kPassed) return LaneWaiter::Answer(slot, answer);
  if (arrival.kind == Barrier::Arrival::kBroken) {
    return Refuse(slot, answer, PTO_BROKEN, "a block of the task has ended before the barrier");
  }
  LaneWaiter::Begin(services_, slot, answer, barrier, arrival.meeting);
}

void LaneCalls::Copy(PostSlot& slot, const LaneCall& call, LaneAnswer answer) {
  const pto_tensor& to = call.to;
  const pto_tensor& from = call.from;
  if (!IsView(to, true) || !IsView(from, false) || to.dtype != from.dtype || to.ndim != from.ndim ||
      !std::equal(to.shape, to.shape + to.ndim, from.shape)) {
    return Refuse(slot, answer, PTO_INVALID, "a copy is between tensors of one shape and type");
  }
  AsyncCopy::Notice notice{WordOf(call.signal), PTO_SET, call.value};
  if (notice.signal.address != nullptr) {
    std::string why;
    if (const pto_result wrong = CheckNotice(slot, call, &why); wrong != PTO_OK) {
      return Refuse(slot, answer, wrong, why);
    }
    notice.op = static_cast<pto_notify_op>(call.how);
  }
  Run& run = *slot.ticket.run;
  const uint32_t task = slot.ticket.task;
  if (!IsEmpty(to) && (!TaskData::Owns(run, task, to) || !TaskData::Owns(run, task, from))) {
    return Refuse(slot, answer, PTO_INVALID, "a copy is between buffers that the task uses");
  }
  PostCalls& calls = PostCalls::Of(slot);
  if (!calls.HasRoomForCopy()) {
    return Refuse(
        slot, answer, PTO_INVALID,
        absl::StrCat("a block in a host has at most ", PostCalls::kMaxCopies, " copies under way"));
  }
  absl::StatusOr<HostCharge> charge = Charge(slot, kCopyBytes, "a copy of a kernel");
  if (!charge.ok()) return Refuse(slot, answer, PTO_INVALID, charge.status().message());
  answer.event =
      calls.AddCopy(AsyncCopy::Begin(services_, run, to, from, notice, *std::move(charge)));
  LaneWaiter::Answer(slot, answer);
}

void LaneCalls::WaitCopy(PostSlot& slot, const LaneCall& call, LaneAnswer answer) {
  PostCalls& calls = PostCalls::Of(slot);
  if (!calls.HasCopy(call.event) || call.timeout_ns < 0) {
    return Refuse(slot, answer, PTO_INVALID, absl::StrCat("the block began no copy ", call.event));
  }
  std::shared_ptr<AsyncCopy> copy = calls.FindCopy(call.event);
  if (copy == nullptr) return LaneWaiter::Answer(slot, answer);
  const SignalWord done = copy->done();
  LaneWaiter::Begin(services_, slot, answer, done, PTO_EQ, 1, std::move(copy), call.timeout_ns);
}

void LaneCalls::AddCondition(PostSlot& slot, const LaneCall& call, LaneAnswer answer,
                             const SignalWord& signal, pto_compare compare, int64_t value,
                             std::shared_ptr<AsyncCopy> copy) {
  PostCalls& calls = PostCalls::Of(slot);
  if (calls.conditions == PostCalls::kMaxConditions) {
    return Refuse(slot, answer, PTO_INVALID,
                  absl::StrCat("a block in a host defers the end of its task by at most ",
                               PostCalls::kMaxConditions, " conditions"));
  }
  absl::StatusOr<HostCharge> charge =
      Charge(slot, kConditionBytes, "what defers the end of a task");
  if (!charge.ok()) return Refuse(slot, answer, PTO_INVALID, charge.status().message());
  Run& run = *slot.ticket.run;
  if (slot.long_task == nullptr) {
    slot.port->table().SetLongTask(slot, &services_.BeginLong(run, slot.ticket.task));
  }
  if (run.long_tasks().WaitsOfCalls(*slot.long_task) >= PostCalls::kMaxTaskConditions) {
    return Refuse(slot, answer, PTO_INVALID,
                  absl::StrCat("the end of a task is deferred by at most ",
                               PostCalls::kMaxTaskConditions, " conditions at once"));
  }
  ++calls.conditions;
  Condition::Add(services_, slot.ticket, signal, compare, value, std::move(copy), call.timeout_ns,
                 slot.long_task, *std::move(charge));
  LaneWaiter::Answer(slot, answer);
}

void LaneCalls::Defer(PostSlot& slot, const LaneCall& call, LaneAnswer answer) {
  if (std::string wrong = WrongWait(slot, call, /*foreign_too=*/true); !wrong.empty()) {
    return Refuse(slot, answer, PTO_INVALID, wrong);
  }
  const SignalWord word = WordOf(call.signal);
  const auto compare = static_cast<pto_compare>(call.how);
  if (word.Compares(compare, word.Load(), call.value)) return LaneWaiter::Answer(slot, answer);
  AddCondition(slot, call, std::move(answer), word, compare, call.value, nullptr);
}

void LaneCalls::DeferCopy(PostSlot& slot, const LaneCall& call, LaneAnswer answer) {
  PostCalls& calls = PostCalls::Of(slot);
  if (!calls.HasCopy(call.event) || call.timeout_ns < 0) {
    return Refuse(slot, answer, PTO_INVALID, absl::StrCat("the block began no copy ", call.event));
  }
  std::shared_ptr<AsyncCopy> copy = calls.FindCopy(call.event);
  if (copy == nullptr || copy->done().Load() == 1) return LaneWaiter::Answer(slot, answer);
  const SignalWord done = copy->done();
  AddCondition(slot, call, std::move(answer), done, PTO_EQ, 1, std::move(copy));
}

}  // namespace pto::engine

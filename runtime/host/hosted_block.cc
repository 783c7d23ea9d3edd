#include "runtime/host/hosted_block.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "runtime/base/pause.h"
#include "runtime/host/futex.h"

namespace pto::host {
namespace {

// A call that does not wait is usually answered within this time.
constexpr std::chrono::microseconds kSpin(5);
constexpr int kPausesPerLook = 16;

HostedBlock& Of(const pto_context* context) { return *static_cast<HostedBlock*>(context->engine); }

int32_t Refuse(HostedBlock& block, pto_result result, absl::string_view why) {
  MutexLock lock(block.calls);
  // What the kernel says itself is better.
  if (block.error.empty()) block.error = std::string(why);
  block.refused = result;
  return result;
}

void AwaitAnswer(PostWord& word, uint32_t before) {
  using Clock = std::chrono::steady_clock;
  for (const Clock::time_point until = Clock::now() + kSpin; Clock::now() < until;) {
    if (word.answered.load(std::memory_order_acquire) != before) return;
    for (int i = 0; i < kPausesPerLook; ++i) Pause();
  }
  word.sleeps.store(1, std::memory_order_seq_cst);
  while (word.answered.load(std::memory_order_seq_cst) == before) {
    FutexWait(word.answered, before);
  }
  word.sleeps.store(0, std::memory_order_relaxed);
}

// Makes a call and waits for its answer.
int32_t Ask(HostedBlock& block, const CallMessage& call, std::vector<TensorMessage> tensors = {},
            pto_event* event = nullptr) {
  MutexLock lock(block.calls);
  PostWord& word = *block.word;
  const uint32_t before = word.answered.load(std::memory_order_acquire);
  Report report;
  report.kind = Report::kCall;
  report.slot = block.slot;
  report.id = block.post;
  report.call = call;
  report.call->number = before + 1;
  report.tensors = std::move(tensors);
  block.reports->Send(report);
  AwaitAnswer(word, before);
  if (event != nullptr) *event = word.event.load(std::memory_order_relaxed);
  return word.result.load(std::memory_order_relaxed);
}

// Says where a signal is. Returns false if the host knows no such memory.
bool Locate(HostedBlock& block, const pto_signal* signal, CallMessage* call) {
  if (signal == nullptr) return false;
  call->signal_dtype = signal->dtype;
  call->signal_region = block.tables->Locate(
      signal->address, std::max<uint64_t>(kernels::DtypeSize(signal->dtype), 1),
      &call->signal_offset);
  return call->signal_region != TensorMessage::kNoRegion;
}

bool Locate(HostedBlock& block, const pto_tensor& tensor, TensorMessage* message) {
  message->dtype = tensor.dtype;
  message->ndim = tensor.ndim;
  std::memcpy(message->shape, tensor.shape, sizeof message->shape);
  std::memcpy(message->strides, tensor.strides, sizeof message->strides);
  if (std::count(tensor.shape, tensor.shape + tensor.ndim, 0) > 0) return true;
  message->region = block.tables->Locate(tensor.data, 1, &message->offset);
  return message->region != TensorMessage::kNoRegion;
}

int32_t RefuseSignal(HostedBlock& block) {
  return Refuse(block, PTO_INVALID, "a signal is a word of one of the task's tensors");
}

int32_t RefuseWait(HostedBlock& block, absl::string_view call) {
  return Refuse(block, PTO_NOT_ALLOWED,
                absl::StrCat("it calls ", call, ", but does not say that it waits or blocks"));
}

int Cancelled(const pto_context* context) {
  const HostedBlock& block = Of(context);
  return block.word->cancelled.load(std::memory_order_relaxed) == block.post ? 1 : 0;
}

void Log(const pto_context* context, pto_log_level level, const char* text) {
  const HostedBlock& block = Of(context);
  Report report;
  report.kind = Report::kLog;
  report.slot = block.slot;
  report.id = block.post;
  report.result = std::clamp<int32_t>(level, PTO_LOG_DEBUG, PTO_LOG_ERROR);
  report.block = context->block_index;
  report.text = text == nullptr ? "" : text;
  block.reports->Send(report);
}

void SetError(const pto_context* context, const char* text) {
  HostedBlock& block = Of(context);
  MutexLock lock(block.calls);
  block.error = text == nullptr ? "" : text;
}

int32_t Wait(const pto_context* context, const pto_signal* signal, pto_compare compare,
             int64_t value, int64_t timeout) {
  HostedBlock& block = Of(context);
  CallMessage call;
  call.kind = CallMessage::kWait;
  call.how = compare;
  call.value = value;
  call.timeout_ns = timeout;
  if (!block.may_wait) return RefuseWait(block, "wait");
  if (!Locate(block, signal, &call)) return RefuseSignal(block);
  return Ask(block, call);
}

int32_t Notify(const pto_context* context, const pto_signal* signal, pto_notify_op op,
               int64_t value) {
  HostedBlock& block = Of(context);
  CallMessage call;
  call.kind = CallMessage::kNotify;
  call.how = op;
  call.value = value;
  if (!Locate(block, signal, &call)) return RefuseSignal(block);
  return Ask(block, call);
}

int32_t Meet(const pto_context* context, pto_scope scope) {
  HostedBlock& block = Of(context);
  CallMessage call;
  call.kind = CallMessage::kBarrier;
  call.how = scope;
  if (!block.may_wait) return RefuseWait(block, "barrier");
  return Ask(block, call);
}

int32_t Copy(const pto_context* context, const pto_tensor* to, const pto_tensor* from,
             const pto_signal* done, pto_notify_op op, int64_t value, pto_event* event) {
  HostedBlock& block = Of(context);
  CallMessage call;
  call.kind = CallMessage::kCopy;
  call.how = op;
  call.value = value;
  if (to == nullptr || from == nullptr || to->ndim > PTO_MAX_DIMS || from->ndim > PTO_MAX_DIMS) {
    return Refuse(block, PTO_INVALID, "a copy is between tensors of one shape and type");
  }
  if (done != nullptr && !Locate(block, done, &call)) return RefuseSignal(block);
  std::vector<TensorMessage> tensors(2);
  if (!Locate(block, *to, &tensors[0]) || !Locate(block, *from, &tensors[1])) {
    return Refuse(block, PTO_INVALID, "a copy is between buffers that the task uses");
  }
  return Ask(block, call, std::move(tensors), event);
}

int32_t WaitCopy(const pto_context* context, pto_event event, int64_t timeout) {
  HostedBlock& block = Of(context);
  CallMessage call;
  call.kind = CallMessage::kWaitCopy;
  call.event = event;
  call.timeout_ns = timeout;
  if (!block.may_wait) return RefuseWait(block, "wait_copy");
  return Ask(block, call);
}

int32_t Defer(const pto_context* context, const pto_signal* signal, pto_compare compare,
              int64_t value, int64_t timeout) {
  HostedBlock& block = Of(context);
  CallMessage call;
  call.kind = CallMessage::kDefer;
  call.how = compare;
  call.value = value;
  call.timeout_ns = timeout;
  if (!Locate(block, signal, &call)) return RefuseSignal(block);
  return Ask(block, call);
}

int32_t DeferCopy(const pto_context* context, pto_event event, int64_t timeout) {
  HostedBlock& block = Of(context);
  CallMessage call;
  call.kind = CallMessage::kDeferCopy;
  call.event = event;
  call.timeout_ns = timeout;
  return Ask(block, call);
}

}  // namespace

const pto_kernel_api HostedBlock::kApi = {
    .struct_size = sizeof(pto_kernel_api),
    .abi_version = PTO_KERNEL_ABI_VERSION,
    .cancelled = &Cancelled,
    .log = &Log,
    .set_error = &SetError,
    .wait = &Wait,
    .notify = &Notify,
    .barrier = &Meet,
    .copy = &Copy,
    .wait_copy = &WaitCopy,
    .defer = &Defer,
    .defer_copy = &DeferCopy,
};

}  // namespace pto::host

#include "runtime/host/block_caller.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/host/crash_handler.h"

namespace pto::host {
namespace {

// A block while its kernel is called: pto_context.engine.
struct Call {
  uint64_t post = 0;
  uint32_t slot = 0;
  const PostWord* word = nullptr;
  ReportSink* reports = nullptr;
  std::string error;
};

Call& Of(const pto_context* context) { return *static_cast<Call*>(context->engine); }

int Cancelled(const pto_context* context) {
  const Call& call = Of(context);
  return call.word->cancelled.load(std::memory_order_relaxed) == call.post ? 1 : 0;
}

void Log(const pto_context* context, pto_log_level level, const char* text) {
  const Call& call = Of(context);
  Report report;
  report.kind = Report::kLog;
  report.slot = call.slot;
  report.id = call.post;
  report.result = std::clamp<int32_t>(level, PTO_LOG_DEBUG, PTO_LOG_ERROR);
  report.block = context->block_index;
  report.text = text == nullptr ? "" : text;
  call.reports->Send(report);
}

void SetError(const pto_context* context, const char* text) {
  Of(context).error = text == nullptr ? "" : text;
}

int32_t Refuse(const pto_context* context, const char* call) {
  Call& block = Of(context);
  // What the kernel says itself is better.
  if (block.error.empty()) {
    block.error = absl::StrCat("it calls ", call, ", which kernels in a kernel host cannot yet");
  }
  return PTO_NOT_ALLOWED;
}

int32_t Wait(const pto_context* context, const pto_signal*, pto_compare, int64_t, int64_t) {
  return Refuse(context, "wait");
}
int32_t Notify(const pto_context* context, const pto_signal*, pto_notify_op, int64_t) {
  return Refuse(context, "notify");
}
int32_t Meet(const pto_context* context, pto_scope) { return Refuse(context, "barrier"); }
int32_t Copy(const pto_context* context, const pto_tensor*, const pto_tensor*, const pto_signal*,
             pto_notify_op, int64_t, pto_event*) {
  return Refuse(context, "copy");
}
int32_t WaitCopy(const pto_context* context, pto_event, int64_t) {
  return Refuse(context, "wait_copy");
}
int32_t Defer(const pto_context* context, const pto_signal*, pto_compare, int64_t, int64_t) {
  return Refuse(context, "defer");
}
int32_t DeferCopy(const pto_context* context, pto_event, int64_t) {
  return Refuse(context, "defer_copy");
}

constexpr pto_kernel_api kApi = {
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

// A kernel must not throw. One that does fails, like one that returns an error.
int32_t CallKernel(const pto_kernel_info& info, const pto_context& context, std::string* error) {
  try {
    return info.function(&context);
  } catch (const std::exception& thrown) {
    *error = absl::StrCat("it has thrown an exception: ", thrown.what());
  } catch (...) {
    *error = "it has thrown something that is no std::exception";
  }
  return -1;
}

}  // namespace

bool BlockCaller::Blocks(const PostView& post) {
  tables_.AwaitOrders(post.head.orders);
  const std::shared_ptr<const KernelCode> kernel = tables_.FindKernel(post.head.kernel);
  return kernel != nullptr && (kernel->info->flags & (PTO_KERNEL_BLOCKS | PTO_KERNEL_WAITS)) != 0;
}

void BlockCaller::Call(const PostView& post) {
  const PostMessage& head = post.head;
  PostWord& word = control_.posts[head.slot];
  tables_.AwaitOrders(head.orders);
  CrashHandler::BeginPost(head.slot, head.id);
  word.block.store(head.block, std::memory_order_relaxed);
  word.running.store(1, std::memory_order_relaxed);
  Report report;
  report.slot = head.slot;
  report.id = head.id;
  report.result = CallBlocks(post, &report.block, &report.text);
  if (!control_.GuardsHold()) {
    CrashHandler::GiveUp("a kernel has overwritten memory of the host");
  }
  word.running.store(0, std::memory_order_relaxed);
  CrashHandler::EndPost();
  reports_.Send(report);
}

int32_t BlockCaller::CallBlocks(const PostView& post, uint32_t* block, std::string* text) {
  const PostMessage& head = post.head;
  *block = head.block;
  const std::shared_ptr<const KernelCode> kernel = tables_.FindKernel(head.kernel);
  if (kernel == nullptr) {
    *text = "the kernel host has not loaded the kernel";
    return PTO_NOT_ALLOWED;
  }
  std::vector<pto_tensor> tensors(post.tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorMessage& from = post.tensors[i];
    pto_tensor& to = tensors[i];
    if (!tables_.Translate(from, &to.data)) {
      *text = "a tensor is not in memory that the kernel host has mapped";
      return PTO_INVALID;
    }
    to.dtype = from.dtype;
    to.ndim = from.ndim;
    std::memcpy(to.shape, from.shape, sizeof to.shape);
    std::memcpy(to.strides, from.strides, sizeof to.strides);
  }
  std::vector<const pto_tensor*> members(head.member_count);
  for (uint32_t i = 0; i < head.member_count; ++i) {
    members[i] = tensors.data() + size_t{i} * head.tensor_count;
  }
  ::pto::host::Call call;
  call.post = head.id;
  call.slot = head.slot;
  call.word = &control_.posts[head.slot];
  call.reports = &reports_;
  pto_context context = {};
  context.struct_size = sizeof context;
  context.block_count = head.block_count;
  context.chip = head.chip;
  context.core = head.core;
  context.core_kind = head.core_kind;
  context.tensor_count = head.tensor_count;
  context.scalar_count = head.scalar_count;
  context.tensors = members[head.member];
  context.scalars = post.scalars.data();
  context.api = &kApi;
  context.engine = &call;
  context.member_index = head.member;
  context.member_count = head.member_count;
  context.members = members.data();
  context.lane = head.cluster_lane;
  context.kernel_data = kernel->data;
  for (; *block < head.block_end; ++*block) {
    context.block_index = *block;
    CrashHandler::SetBlock(*block);
    control_.posts[head.slot].block.store(*block, std::memory_order_relaxed);
    const int32_t result = CallKernel(*kernel->info, context, &call.error);
    if (result != 0) {
      *text = std::move(call.error);
      return result;
    }
  }
  return 0;
}

}  // namespace pto::host

#include "runtime/host/block_caller.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "kernels/domain_scalar.h"
#include "kernels/dtype.h"
#include "runtime/base/ticks.h"
#include "runtime/host/crash_handler.h"
#include "runtime/host/hosted_block.h"
#include "runtime/host/object/pto_call.h"
#include "runtime/host/train_cursor.h"

namespace pto::host {

// What a kernel of the PTO ABI gets beyond the pto_context.
struct BlockCaller::PtoArguments {
  std::vector<PtoBuffer> buffers;  // of the tensors of the own member
  std::vector<PtoBuffer> windows;  // member by member
  std::vector<PtoCommContext> domains;
  std::vector<pto_scalar> scalars;
  PtoCallInfo info;
};

namespace {

bool Waits(const pto_kernel_info& info) {
  return (info.flags & (PTO_KERNEL_BLOCKS | PTO_KERNEL_WAITS)) != 0;
}

// Whether the view can be described as a part of the buffer.
bool IsPartOf(const pto_tensor& view, const PtoBuffer& buffer) {
  const uint64_t size = kernels::DtypeSize(view.dtype);
  const auto before = static_cast<uint64_t>(static_cast<const std::byte*>(view.data) -
                                            static_cast<const std::byte*>(buffer.address));
  return size != 0 && buffer.address != nullptr && before % size == 0;
}

// A train that takes longer ends early, so that its core is soon free for others.
constexpr double kMostMicroseconds = 400;
// Between two looks at the time, in a train with many steps, which should be short.
constexpr uint32_t kStepsPerLook = 16;
constexpr size_t kManySteps = 64;

uint64_t MostTicks() {
  static const auto ticks = static_cast<uint64_t>(kMostMicroseconds * TicksPerMicrosecond());
  return ticks;
}

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

std::shared_ptr<const KernelCode> BlockCaller::Find(const PostView& post) {
  tables_.AwaitOrders(post.head.orders);
  return tables_.FindKernel(post.head.kernel);
}

bool BlockCaller::Blocks(const KernelCode* kernel) {
  return kernel != nullptr && Waits(*kernel->info);
}

void BlockCaller::Call(const PostView& post, const KernelCode* kernel) {
  if (!post.steps.empty()) return CallTrain(post);
  const PostMessage& head = post.head;
  PostWord& word = control_.posts[head.slot];
  CrashHandler::BeginPost(head.slot, head.id);
  word.block.store(head.block, std::memory_order_relaxed);
  word.running.store(1, std::memory_order_relaxed);
  Report report;
  report.slot = head.slot;
  report.id = head.id;
  const uint64_t begin = Ticks();
  report.result =
      CallBlocks({head, post.scalars, post.tensors}, kernel, &report.block, &report.text);
  report.took_ticks = static_cast<uint32_t>(std::min<uint64_t>(Ticks() - begin, UINT32_MAX));
  if (!control_.GuardsHold()) {
    CrashHandler::GiveUp("a kernel has overwritten memory of the host");
  }
  word.running.store(0, std::memory_order_relaxed);
  reports_.Send(report);
  // Not before: a kernel that has broken the ring is named when the report finds that out.
  CrashHandler::EndPost();
}

void BlockCaller::CallTrain(const PostView& post) {
  // As if the post were its current step.
  PostMessage head = post.head;
  PostWord& word = control_.posts[head.slot];
  TrainCursor cursor(word.cursor);
  CrashHandler::BeginPost(head.slot, head.id);
  word.running.store(1, std::memory_order_relaxed);
  Report report;
  report.slot = head.slot;
  report.id = head.id;
  absl::Span<const pto_scalar> scalars = post.scalars;
  absl::Span<const TensorMessage> tensors = post.tensors;
  std::shared_ptr<const KernelCode> kernel;
  const uint64_t most_ticks = MostTicks();
  const uint32_t steps_per_look = post.steps.size() >= kManySteps ? kStepsPerLook : 1;
  const uint64_t begin = Ticks();
  uint32_t& step = report.steps;
  for (; step < post.steps.size(); ++step) {
    if (word.cancelled.load(std::memory_order_relaxed) == head.id) break;
    // At least one step, or the train would come again and again.
    if (step > 0 && step % steps_per_look == 0 && Ticks() - begin > most_ticks) break;
    if (!cursor.Begin(step)) break;
    const StepMessage& message = post.steps[step];
    if (step == 0 || message.kernel != head.kernel) {
      head.kernel = message.kernel;
      kernel = tables_.FindKernel(head.kernel);
    }
    head.task = message.task;
    head.tensor_count = message.tensor_count;
    head.scalar_count = message.scalar_count;
    report.result = CallBlocks({head, scalars.first(head.scalar_count),
                                tensors.first(head.tensor_count), /*in_train=*/true},
                               kernel.get(), &report.block, &report.text);
    if (!control_.GuardsHold()) {
      CrashHandler::GiveUp("a kernel has overwritten memory of the host");
    }
    if (report.result != 0) break;
    scalars.remove_prefix(head.scalar_count);
    tensors.remove_prefix(head.tensor_count);
  }
  report.took_ticks = static_cast<uint32_t>(std::min<uint64_t>(Ticks() - begin, UINT32_MAX));
  word.running.store(0, std::memory_order_relaxed);
  reports_.Send(report);
  CrashHandler::EndPost();
}

bool BlockCaller::FillPto(const Task& task, const pto_kernel_info& info,
                          const std::vector<pto_tensor>& tensors, PtoArguments* out,
                          std::string* text) {
  const PostMessage& head = task.head;
  const size_t own = size_t{head.member} * head.tensor_count;
  for (size_t i = 0; i < task.tensors.size(); ++i) {
    out->windows.push_back(tables_.WindowOf(task.tensors[i]));
    if (i < own || i >= own + head.tensor_count) continue;
    PtoBuffer buffer;
    void* address = nullptr;
    tables_.Translate(task.tensors[i], &address, &buffer);
    // Otherwise the view is a buffer of its own.
    if (!IsPartOf(tensors[i], buffer)) buffer = {tensors[i].data, task.tensors[i].bytes};
    out->buffers.push_back(buffer);
  }
  out->scalars.assign(task.scalars.begin(), task.scalars.end());
  out->domains.reserve(out->scalars.size());
  for (uint32_t i = 0; i < info.scalar_count && i < out->scalars.size(); ++i) {
    if (info.scalars[i].type != kDomainScalar) continue;
    const auto number = static_cast<uint64_t>(out->scalars[i].i64);
    const std::shared_ptr<const DomainCode> domain = tables_.FindDomain(number);
    const PtoCommContext* const context =
        domain == nullptr ? nullptr : domain->ContextOf(head.chip);
    if (context == nullptr) {
      *text = absl::StrCat(info.scalars[i].name, ": ",
                           domain == nullptr
                               ? "the kernel host does not see all windows of the domain"
                               : absl::StrCat("chips/", head.chip, " is no rank of the domain"));
      return false;
    }
    out->scalars[i].i64 = static_cast<int64_t>(out->domains.size());
    out->domains.push_back(*context);
  }
  out->info.run = head.run;
  out->info.cluster = head.core_kind == PTO_MIX ? head.cluster : PtoCallInfo::kNoCluster;
  out->info.buffers = out->buffers;
  out->info.windows = out->windows;
  out->info.domains = out->domains;
  return true;
}

int32_t BlockCaller::CallBlocks(const Task& task, const KernelCode* kernel, uint32_t* block,
                                std::string* text) {
  const PostMessage& head = task.head;
  *block = head.block;
  if (kernel == nullptr) {
    *text = "the kernel host has not loaded the kernel";
    return PTO_NOT_ALLOWED;
  }
  // Their memory is used again and again.
  thread_local std::vector<pto_tensor> tensors;
  thread_local std::vector<const pto_tensor*> members;
  tensors.resize(task.tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorMessage& from = task.tensors[i];
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
  members.resize(head.member_count);
  for (uint32_t i = 0; i < head.member_count; ++i) {
    members[i] = tensors.data() + size_t{i} * head.tensor_count;
  }
  HostedBlock hosted;
  hosted.post = head.id;
  hosted.slot = head.slot;
  hosted.word = &control_.posts[head.slot];
  hosted.reports = &reports_;
  hosted.tables = &tables_;
  hosted.may_wait = Waits(*kernel->info);
  hosted.in_train = task.in_train;
  pto_context context = {};
  context.struct_size = sizeof context;
  context.block_count = head.block_count;
  context.chip = head.chip;
  context.core = head.core;
  context.core_kind = head.core_kind;
  context.tensor_count = head.tensor_count;
  context.scalar_count = head.scalar_count;
  context.tensors = members[head.member];
  context.scalars = task.scalars.data();
  context.api = &HostedBlock::kApi;
  context.engine = &hosted;
  context.member_index = head.member;
  context.member_count = head.member_count;
  context.members = members.data();
  context.lane = head.cluster_lane;
  context.kernel_data = kernel->data;
  absl::optional<PtoArguments> pto;
  absl::optional<PtoCallScope> pto_scope;
  if (kernel->abi == HostAbi::kPto) {
    if (!FillPto(task, *kernel->info, tensors, &pto.emplace(), text)) return PTO_INVALID;
    context.scalars = pto->scalars.data();
    pto_scope.emplace(pto->info);
  }
  for (; *block < head.block_end; ++*block) {
    context.block_index = *block;
    if (!task.in_train) {
      CrashHandler::SetBlock(*block);
      control_.posts[head.slot].block.store(*block, std::memory_order_relaxed);
    }
    int32_t result = CallKernel(*kernel->info, context, &hosted.error);
    // A kernel must pass on that a call of it has failed. The daemon knows the rest of them.
    if (result == 0) result = hosted.refused;
    if (result != 0) {
      *text = std::move(hosted.error);
      return result;
    }
  }
  return 0;
}

}  // namespace pto::host

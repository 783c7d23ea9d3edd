#include "runtime/host/block_caller.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/domain_scalar.h"
#include "kernels/dtype.h"
#include "runtime/base/ticks.h"
#include "runtime/host/crash_handler.h"
#include "runtime/host/hosted_block.h"
#include "runtime/host/object/pto_call.h"

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
  const PostMessage& head = post.head;
  PostWord& word = control_.posts[head.slot];
  CrashHandler::BeginPost(head.slot, head.id);
  word.block.store(head.block, std::memory_order_relaxed);
  word.running.store(1, std::memory_order_relaxed);
  Report report;
  report.slot = head.slot;
  report.id = head.id;
  const uint64_t begin = Ticks();
  report.result = CallBlocks(post, kernel, &report.block, &report.text);
  report.took_ticks = static_cast<uint32_t>(std::min<uint64_t>(Ticks() - begin, UINT32_MAX));
  if (!control_.GuardsHold()) {
    CrashHandler::GiveUp("a kernel has overwritten memory of the host");
  }
  word.running.store(0, std::memory_order_relaxed);
  reports_.Send(report);
  // Not before: a kernel that has broken the ring is named when the report finds that out.
  CrashHandler::EndPost();
}

bool BlockCaller::FillPto(const PostView& post, const pto_kernel_info& info,
                          const std::vector<pto_tensor>& tensors, PtoArguments* out,
                          std::string* text) {
  const PostMessage& head = post.head;
  const size_t own = size_t{head.member} * head.tensor_count;
  for (size_t i = 0; i < post.tensors.size(); ++i) {
    out->windows.push_back(tables_.WindowOf(post.tensors[i]));
    if (i < own || i >= own + head.tensor_count) continue;
    PtoBuffer buffer;
    void* address = nullptr;
    tables_.Translate(post.tensors[i], &address, &buffer);
    // Otherwise the view is a buffer of its own.
    if (!IsPartOf(tensors[i], buffer)) buffer = {tensors[i].data, post.tensors[i].bytes};
    out->buffers.push_back(buffer);
  }
  out->scalars = post.scalars;
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

int32_t BlockCaller::CallBlocks(const PostView& post, const KernelCode* kernel, uint32_t* block,
                                std::string* text) {
  const PostMessage& head = post.head;
  *block = head.block;
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
  HostedBlock hosted;
  hosted.post = head.id;
  hosted.slot = head.slot;
  hosted.word = &control_.posts[head.slot];
  hosted.reports = &reports_;
  hosted.tables = &tables_;
  hosted.may_wait = Waits(*kernel->info);
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
  context.api = &HostedBlock::kApi;
  context.engine = &hosted;
  context.member_index = head.member;
  context.member_count = head.member_count;
  context.members = members.data();
  context.lane = head.cluster_lane;
  context.kernel_data = kernel->data;
  PtoArguments pto;
  if (kernel->abi == HostAbi::kPto) {
    if (!FillPto(post, *kernel->info, tensors, &pto, text)) return PTO_INVALID;
    context.scalars = pto.scalars.data();
  }
  const PtoCallScope pto_scope(pto.info);
  for (; *block < head.block_end; ++*block) {
    context.block_index = *block;
    CrashHandler::SetBlock(*block);
    control_.posts[head.slot].block.store(*block, std::memory_order_relaxed);
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

#include "runtime/engine/block_runner.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto {
namespace {

// What `pto_context.engine` points at.
struct BlockState {
  const Run* run = nullptr;
  const BlockTicket* ticket = nullptr;
  const std::atomic<bool>* stop = nullptr;
  std::string error;
};

// The tensors of all members of a task over several chips.
struct GroupTensors {
  std::vector<pto_tensor> all;
  std::vector<const pto_tensor*> members;
};

BlockState& StateOf(const pto_context* context) {
  return *static_cast<BlockState*>(context->engine);
}

int Cancelled(const pto_context* context) {
  return StateOf(context).stop->load(std::memory_order_relaxed) ? 1 : 0;
}

void LogLine(const pto_context* context, pto_log_level level, const char* text) {
  const BlockState& state = StateOf(context);
  const auto ours = static_cast<LogLevel>(std::clamp<int>(level, PTO_LOG_DEBUG, PTO_LOG_ERROR));
  if (!LogEnabled(ours)) return;
  Log(ours, __FILE__, __LINE__, text == nullptr ? "" : text,
      {{"run", state.run->name()}, {"task", state.ticket->task}, {"block", state.ticket->block}});
}

void SetError(const pto_context* context, const char* text) {
  StateOf(context).error = text == nullptr ? "" : text;
}

constexpr pto_kernel_api MakeApi() {
  pto_kernel_api api{};
  api.struct_size = sizeof api;
  api.abi_version = PTO_KERNEL_ABI_VERSION;
  api.cancelled = &Cancelled;
  api.log = &LogLine;
  api.set_error = &SetError;
  return api;
}

constexpr pto_kernel_api kApi = MakeApi();

// What the ticket's core runs.
const pto_kernel_info& KernelOf(const BlockTicket& ticket) {
  const GraphImage& image = ticket.run->image();
  if (ticket.lane == 0) return image.kernel(ticket.task);
  return image.kernel_info(image.detail(ticket.task)->vector_kernels[ticket.lane - 1]);
}

absl::Status Failure(const Reason& reason, const BlockTicket& ticket, absl::string_view what,
                     absl::string_view text) {
  const GraphImage& image = ticket.run->image();
  const ImageTask& task = image.tasks()[ticket.task];
  const absl::string_view name = image.task_name(ticket.task);
  std::string message = absl::StrCat("task ", ticket.task);
  if (!name.empty()) absl::StrAppend(&message, " '", name, "'");
  const absl::string_view kernel = KernelOf(ticket).name;
  absl::StrAppend(&message, ": kernel '", kernel, "' ", what, " in block ", ticket.block, " of ",
                  task.block_num, " on chips/", ticket.chip, " core ", ticket.core);
  if (!text.empty()) absl::StrAppend(&message, ": ", text);
  return Error(reason, message)
      .With("task", ticket.task)
      .With("task_name", name)
      .With("kernel", kernel)
      .With("block", ticket.block)
      .With("chip", absl::StrCat("chips/", ticket.chip))
      .With("core", ticket.core);
}

}  // namespace

void BlockRunner::LayOut(const Run& run, absl::Span<const uint32_t> args, pto_tensor* tensors) {
  const GraphImage& image = run.image();
  for (size_t i = 0; i < args.size(); ++i) {
    const ImageTensor& tensor = image.tensors()[args[i]];
    const Layout& layout = image.layouts()[tensor.layout];
    pto_tensor& out = tensors[i];
    out.data = nullptr;
    if (layout.extent > 0) {
      const RunSlot& slot = (*run.spec_.slots)[tensor.slot];
      out.data = slot.memory->data() + slot.offset_bytes +
                 static_cast<uint64_t>(tensor.offset) * kernels::DtypeSize(layout.dtype);
    }
    out.dtype = layout.dtype;
    out.ndim = layout.ndim;
    std::memcpy(out.shape, layout.shape.data(), sizeof out.shape);
    std::memcpy(out.strides, layout.strides.data(), sizeof out.strides);
  }
}

absl::Status BlockRunner::Call(const BlockTicket& ticket) {
  Run& run = *ticket.run;
  const GraphImage& image = run.image();
  const ImageTask& task = image.tasks()[ticket.task];
  const pto_kernel_info& kernel = KernelOf(ticket);

  const ImageDetail* const detail = image.detail(ticket.task);
  const uint32_t member_count = detail == nullptr ? 1 : detail->member_count;
  pto_tensor own[PTO_MAX_ARGS];
  const pto_tensor* tensors = own;
  const pto_tensor* const* members = &tensors;
  std::unique_ptr<GroupTensors> group;
  if (member_count == 1) {
    LayOut(run, image.args(ticket.task), own);
  } else {
    group = std::make_unique<GroupTensors>();
    group->all.resize(size_t{member_count} * PTO_MAX_ARGS);
    for (uint32_t m = 0; m < member_count; ++m) {
      pto_tensor* const of_member = &group->all[size_t{m} * PTO_MAX_ARGS];
      LayOut(run, image.args(ticket.task, m), of_member);
      group->members.push_back(of_member);
    }
    tensors = group->members[ticket.member];
    members = group->members.data();
  }
  pto_scalar scalars[PTO_MAX_SCALARS];
  const absl::Span<const uint32_t> refs = image.scalar_refs(ticket.task);
  for (size_t i = 0; i < refs.size(); ++i) {
    const uint64_t bits = refs[i] < run.spec_.named_scalars.size()
                              ? run.spec_.named_scalars[refs[i]]
                              : image.scalar_values()[refs[i]];
    std::memcpy(&scalars[i], &bits, sizeof bits);
  }

  BlockState state{&run, &ticket, &run.stop_, {}};
  pto_context context = {};
  context.struct_size = sizeof context;
  context.block_index = ticket.block;
  context.block_count = task.block_num;
  context.chip = ticket.chip;
  context.core = static_cast<uint32_t>(ticket.core);
  context.core_kind = task.core;
  context.tensor_count = kernel.argument_count;
  context.scalar_count = kernel.scalar_count;
  context.tensors = tensors;
  context.scalars = scalars;
  context.api = &kApi;
  context.engine = &state;
  context.member_index = ticket.member;
  context.member_count = member_count;
  context.members = members;
  context.lane = ticket.lane;
  try {
    const int32_t code = kernel.function(&context);
    if (code == 0) return absl::OkStatus();
    return Failure(reason::kKernelFailed, ticket, absl::StrCat("returned ", code), state.error);
  } catch (const std::exception& thrown) {
    return Failure(reason::kKernelThrew, ticket, "threw", thrown.what());
  } catch (...) {
    return Failure(reason::kKernelThrew, ticket, "threw", "");
  }
}

}  // namespace pto

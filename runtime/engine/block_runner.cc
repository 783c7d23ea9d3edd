#include "runtime/engine/block_runner.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/error.h"
#include "runtime/engine/block_state.h"
#include "runtime/engine/kernel_api.h"
#include "runtime/engine/services.h"
#include "runtime/engine/task_data.h"

namespace pto {
namespace {

void FillTensors(const Run& run, absl::Span<const uint32_t> args, pto_tensor* out) {
  for (size_t i = 0; i < args.size(); ++i) TaskData::Fill(run, args[i], out[i]);
}

}  // namespace

BlockEnd BlockRunner::CallKernel(const pto_kernel_info& kernel, const pto_context& context,
                                 BlockState& state, absl::Status* error) {
  const BlockTicket& ticket = *state.ticket;
  try {
    const int32_t code = kernel.function(&context);
    if (code == 0) return BlockEnd::kDone;
    *error = code == PTO_TIMED_OUT && !state.rare().failure.ok()
                 ? std::move(state.rare().failure)
                 : TaskData::BlockError(reason::kKernelFailed, ticket,
                                        absl::StrCat("returned ", code), state.rare().error);
  } catch (const std::exception& thrown) {
    *error = TaskData::BlockError(reason::kKernelThrew, ticket, "threw", thrown.what());
  } catch (...) {
    *error = TaskData::BlockError(reason::kKernelThrew, ticket, "threw", "");
  }
  return BlockEnd::kFailed;
}

BlockEnd BlockRunner::Call(Services& services, const BlockTicket& ticket, absl::Status* error) {
  Run& run = *ticket.run;
  const GraphImage& image = run.image();
  const ImageTask& task = image.tasks()[ticket.task];
  const pto_kernel_info& kernel = image.kernel(ticket.task);

  pto_tensor tensors[PTO_MAX_ARGS];
  FillTensors(run, image.args(ticket.task), tensors);
  pto_scalar scalars[PTO_MAX_SCALARS];
  TaskData::FillScalars(run, ticket.task, scalars);

  BlockState state;
  state.services = &services;
  state.run = &run;
  state.ticket = &ticket;
  state.stop = &run.stop_;
  state.counted = task.block_num > 1;
  const pto_tensor* const members[] = {tensors};
  pto_context context = {};
  context.struct_size = sizeof context;
  context.block_index = ticket.block;
  context.block_count = task.block_num;
  context.chip = task.chip;
  context.core = static_cast<uint32_t>(ticket.core);
  context.core_kind = task.core;
  context.tensor_count = kernel.argument_count;
  context.scalar_count = kernel.scalar_count;
  context.tensors = tensors;
  context.scalars = scalars;
  context.api = &KernelApi::kTable;
  context.engine = &state;
  context.member_count = 1;
  context.members = members;
  const BlockEnd end = CallKernel(kernel, context, state, error);
  return state.deferred ? BlockEnd::kDeferred : end;
}

BlockEnd BlockRunner::CallSlow(Services& services, const BlockTicket& ticket, BlockHost* host,
                               LongTask* long_task, absl::Status* error) {
  Run& run = *ticket.run;
  const GraphImage& image = run.image();
  const ImageTask& task = image.tasks()[ticket.task];
  const ImageDetail* const detail = image.detail(ticket.task);
  const pto_kernel_info& kernel = ticket.lane == 0
                                      ? image.kernel(ticket.task)
                                      : image.kernel_info(detail->vector_kernels[ticket.lane - 1]);

  const uint32_t member_count = detail == nullptr ? 1 : detail->member_count;
  // On the heap: the stacks of fibers are small, and the members may be many.
  std::vector<pto_tensor> tensors(size_t{member_count} * kernel.argument_count);
  std::vector<const pto_tensor*> members;
  for (uint32_t member = 0; member < member_count; ++member) {
    pto_tensor* const own = tensors.data() + size_t{member} * kernel.argument_count;
    FillTensors(run, image.args(ticket.task, member), own);
    members.push_back(own);
  }
  pto_scalar scalars[PTO_MAX_SCALARS];
  TaskData::FillScalars(run, ticket.task, scalars);

  BlockState state;
  state.services = &services;
  state.run = &run;
  state.ticket = &ticket;
  state.stop = &run.stop_;
  state.host = host;
  state.long_task = long_task;
  state.counted = true;
  pto_context context = {};
  context.struct_size = sizeof context;
  context.block_index = ticket.block;
  context.block_count = task.block_num;
  context.chip = ticket.chip;
  context.core = static_cast<uint32_t>(ticket.core);
  context.core_kind = task.core;
  context.tensor_count = kernel.argument_count;
  context.scalar_count = kernel.scalar_count;
  context.tensors = members[ticket.member];
  context.scalars = scalars;
  context.api = &KernelApi::kTable;
  context.engine = &state;
  context.member_index = ticket.member;
  context.member_count = member_count;
  context.members = members.data();
  context.lane = ticket.lane;
  return CallKernel(kernel, context, state, error);
}

}  // namespace pto

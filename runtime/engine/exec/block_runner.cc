#include "runtime/engine/exec/block_runner.h"

#include <vector>

#include "kernels/pto_kernel.h"
#include "runtime/base/ticks.h"
#include "runtime/engine/exec/block_state.h"
#include "runtime/engine/exec/kernel_api.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/exec/stop_note.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {

BlockEnd BlockRunner::CallSlow(Services& services, const BlockTicket& ticket, BlockHost* host,
                               LongTask* long_task, absl::Status* error) {
  Run& run = *ticket.run;
  const GraphImage& image = run.image();
  const ImageTask& task = image.tasks()[ticket.task];
  const ImageDetail* const detail = image.detail(ticket.task);
  const uint32_t kernel_index =
      ticket.cluster_lane == 0 ? task.kernel : detail->vector_kernels[ticket.cluster_lane - 1];
  const pto_kernel_info& kernel = image.kernel_info(kernel_index);

  const uint32_t member_count = detail == nullptr ? 1 : detail->member_count;
  // On the heap: the stacks of fibers are small, and the members may be many.
  std::vector<pto_tensor> tensors(size_t{member_count} * kernel.argument_count);
  std::vector<const pto_tensor*> members;
  for (uint32_t member = 0; member < member_count; ++member) {
    pto_tensor* const own = tensors.data() + size_t{member} * kernel.argument_count;
    TaskData::FillTensors(run, ticket.task, member, own);
    members.push_back(own);
  }
  pto_scalar scalars[PTO_MAX_SCALARS];
  TaskData::FillScalars(run, ticket.task, scalars);

  BlockState state;
  state.services = &services;
  state.run = &run;
  state.ticket = &ticket;
  state.stop = run.outcome().stop_flag();
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
  context.lane = ticket.cluster_lane;
  context.kernel_data = image.kernel_data(kernel_index);
  const uint64_t began_ticks = long_task == nullptr ? 0 : Ticks();
  const BlockEnd end = CallKernel(kernel, context, state, error);
  if (run.stopping() ||
      (state.long_task != nullptr && state.long_task->late.load(std::memory_order_acquire))) {
    StopNote::Leave(state, began_ticks, *error);
  }
  return end;
}

}  // namespace pto::engine

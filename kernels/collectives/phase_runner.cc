#include "kernels/collectives/phase_runner.h"

#include <cstring>
#include <memory>

namespace pto::kernels::collectives {

pto_tensor DenseTensor(uint32_t dtype, int64_t count, void* data) {
  pto_tensor tensor = {};
  // Like the engine.
  tensor.data = count == 0 ? nullptr : data;
  tensor.dtype = dtype;
  tensor.ndim = 1;
  tensor.shape[0] = count;
  tensor.strides[0] = 1;
  return tensor;
}

PhaseResult RunPhases(const pto_kernel_info& kernel, const std::vector<RankTensors>& ranks,
                      const std::vector<int64_t>& scalars, uint32_t block_count,
                      const std::function<void()>& planned,
                      const std::function<void(uint32_t)>& phase_begins) {
  std::vector<const pto_tensor*> members;
  for (const RankTensors& rank : ranks) members.push_back(rank.data());
  std::vector<pto_scalar> values(scalars.size());
  for (size_t i = 0; i < scalars.size(); ++i) values[i].i64 = scalars[i];

  pto_launch launch = {};
  launch.struct_size = sizeof launch;
  launch.member_count = static_cast<uint32_t>(ranks.size());
  launch.block_count = block_count;
  launch.tensor_count = kernel.argument_count;
  launch.scalar_count = kernel.scalar_count;
  launch.members = members.data();
  launch.scalars = values.data();
  PhaseResult result;
  result.plan.struct_size = sizeof result.plan;
  result.plan.phases = 1;
  char message[512] = "";
  if (kernel.plan(&launch, &result.plan, message, sizeof message) != 0) {
    result.refused = *message == '\0' ? "no reason" : message;
    return result;
  }

  planned();
  pto_kernel_api api = {};
  api.struct_size = sizeof api;
  api.abi_version = PTO_KERNEL_ABI_VERSION;
  api.set_error = [](const pto_context* call, const char* text) {
    static_cast<PhaseResult*>(call->engine)->error = text;
  };
  // The engine does not clear the workspace, so fill it with garbage.
  const auto workspace = std::make_unique<std::byte[]>(result.plan.workspace_bytes + 1);
  std::memset(workspace.get(), 0xa5, result.plan.workspace_bytes);
  pto_context context = {};
  context.struct_size = sizeof context;
  context.block_count = block_count;
  context.core_kind = kernel.default_core;
  context.tensor_count = kernel.argument_count;
  context.scalar_count = kernel.scalar_count;
  context.scalars = values.data();
  context.api = &api;
  context.engine = &result;
  context.member_count = launch.member_count;
  context.members = members.data();
  context.phase_count = result.plan.phases;
  context.workspace = workspace.get();
  for (context.phase = 0; context.phase < result.plan.phases; ++context.phase) {
    phase_begins(context.phase);
    for (uint32_t rank = launch.member_count; rank-- > 0;) {
      for (uint32_t block = block_count; block-- > 0;) {
        if (result.plan.calls != 0 && rank * block_count + block >= result.plan.calls) continue;
        context.member_index = context.chip = rank;
        context.block_index = block;
        context.tensors = members[rank];
        result.code = kernel.function(&context);
        if (result.code != 0) return result;
      }
    }
  }
  return result;
}

}  // namespace pto::kernels::collectives

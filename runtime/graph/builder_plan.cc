#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/plan_check.h"

// GraphBuilder's functions for kernels that work in phases.
namespace pto::engine {

absl::Status GraphBuilder::CheckPlan(const TaskInput& task, const ImageTask& record) const {
  const pto_kernel_info& info = *kernel_infos_[task.kernel];
  const uint32_t member_count = std::max<uint32_t>(1, static_cast<uint32_t>(task.members.size()));
  std::vector<pto_tensor> tensors;
  tensors.reserve(size_t{member_count} * info.argument_count);
  std::vector<const pto_tensor*> members;
  for (uint32_t member = 0; member < member_count; ++member) {
    const absl::Span<const uint32_t> args =
        task.members.empty() ? task.args : task.members[member].args;
    members.push_back(tensors.data() + tensors.size());
    for (const uint32_t arg : args) tensors.push_back(tensors_.Described(arg));
  }
  pto_scalar scalars[PTO_MAX_SCALARS] = {};
  for (size_t i = 0; i < task.scalars.size(); ++i) {
    const ScalarInput& scalar = task.scalars[i].kind == ScalarInput::Kind::kNamed
                                    ? scalars_.named(task.scalars[i].named)
                                    : task.scalars[i];
    PTO_ASSIGN_OR_RETURN(const uint64_t bits, ScalarTable::Bits(scalar, info.scalars[i]));
    std::memcpy(&scalars[i], &bits, sizeof bits);
  }
  pto_plan plan;
  std::string refused;
  if (MakePlan(info, owned_kernels_[task.kernel]->data(), members, record.block_num, scalars, &plan,
               &refused))
    return absl::OkStatus();
  return Error(reason::kArgumentInvalid, refused)
      .At(task.members.empty() ? "args" : "members")
      .With("kernel", info.name);
}

}  // namespace pto::engine

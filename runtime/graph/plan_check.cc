#include "runtime/graph/plan_check.h"

#include "absl/strings/str_cat.h"

namespace pto::engine {

bool MakePlan(const pto_kernel_info& kernel, const void* kernel_data,
              absl::Span<const pto_tensor* const> members, uint32_t block_count,
              const pto_scalar* scalars, pto_plan* plan, std::string* refused) {
  pto_launch launch = {};
  launch.struct_size = sizeof launch;
  launch.member_count = static_cast<uint32_t>(members.size());
  launch.block_count = block_count;
  launch.tensor_count = kernel.argument_count;
  launch.scalar_count = kernel.scalar_count;
  launch.members = members.data();
  launch.scalars = scalars;
  launch.kernel_data = kernel_data;
  *plan = {};
  plan->struct_size = sizeof *plan;
  plan->phases = 1;
  char message[512];
  message[0] = '\0';
  if (kernel.plan(&launch, plan, message, sizeof message) == 0) {
    if (plan->phases > 0 && plan->phases <= kMaxPlanPhases) return true;
    *refused = plan->phases == 0 ? "the kernel plans no phase"
                                 : absl::StrCat("the kernel plans ", plan->phases,
                                                " phases; at most ", kMaxPlanPhases, " can be");
    return false;
  }
  message[sizeof message - 1] = '\0';
  *refused = *message != '\0' ? message : "the kernel refuses its tensors";
  return false;
}

}  // namespace pto::engine

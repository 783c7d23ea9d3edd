#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

namespace pto {

// As many phases as a kernel can plan; pto_kernel.h says it too. The engine counts them in 24 bits.
inline constexpr uint32_t kMaxPlanPhases = (1u << 24) - 1;

// Asks a kernel that works in phases, with this closure, what it needs for a launch. Returns false
// and writes why to `refused` if the kernel refuses, or plans no phase or too many.
bool MakePlan(const pto_kernel_info& kernel, const void* kernel_data,
              absl::Span<const pto_tensor* const> members, uint32_t block_count,
              const pto_scalar* scalars, pto_plan* plan, std::string* refused);

}  // namespace pto

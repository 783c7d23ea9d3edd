#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

namespace pto::engine {

// The maximum number of phases of a plan; pto_kernel.h states it too. The engine counts phases in
// 24 bits.
inline constexpr uint32_t kMaxPlanPhases = (1u << 24) - 1;

// Asks a kernel that works in phases, with this closure, for its plan of a launch. Returns false
// and writes the reason to `refused` if the kernel refuses, or plans no phase or too many.
bool MakePlan(const pto_kernel_info& kernel, const void* kernel_data,
              absl::Span<const pto_tensor* const> members, uint32_t block_count,
              const pto_scalar* scalars, pto_plan* plan, std::string* refused);

}  // namespace pto::engine

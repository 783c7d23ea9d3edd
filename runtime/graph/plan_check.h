#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

namespace pto {

// Asks a kernel that works in phases what it needs for this launch. Returns false when it refuses,
// and says why.
bool MakePlan(const pto_kernel_info& kernel, absl::Span<const pto_tensor* const> members,
              uint32_t block_count, const pto_scalar* scalars, pto_plan* plan,
              std::string* refused);

}  // namespace pto

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/pto_kernel.h"

namespace pto {

// Refuses a malformed description of a kernel: FIELD_INVALID at the field. Reads no field beyond
// the description's struct_size.
absl::Status CheckKernelInfo(const pto_kernel_info& info);

// Which arguments may overlap this one. None if the kernel was built before the field existed.
pto_overlap_info OverlapOf(const pto_kernel_info& info, uint32_t argument);

}  // namespace pto

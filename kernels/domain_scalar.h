#pragma once

#include "kernels/pto_kernel.h"

namespace pto {

// The type of a scalar for which a task names a domain of its session. It is no part of the kernel
// ABI: only kernels of the PTO ABI have such scalars, and they get the address of a communication
// context instead. On its way from the graph to the host, the scalar is the number of the domain.
inline constexpr auto kDomainScalar = static_cast<pto_scalar_type>(3);

}  // namespace pto

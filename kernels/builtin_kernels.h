#pragma once

#include "kernels/registry.h"

namespace pto {

// All built-in kernels.
const KernelRegistry& BuiltinKernels();

}  // namespace pto

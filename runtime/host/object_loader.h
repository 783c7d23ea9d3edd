#pragma once

#include "absl/status/statusor.h"
#include "runtime/host/host_tables.h"

namespace pto::host {

// The loader of a host: kernels of both ABIs in shared objects. See LoadedKernel.
absl::StatusOr<KernelCode> LoadObject(const KernelObject& object);

}  // namespace pto::host

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/host/host_tables.h"

namespace pto::host {

// The loader of a host: kernels of our own ABI in shared objects. See LoadedKernel.
absl::StatusOr<KernelCode> LoadObject(int object, const std::string& entry,
                                      const std::string& file_name);

}  // namespace pto::host

#include "runtime/host/hosted_kernel.h"

#include <utility>

namespace pto::host {

HostedKernel::HostedKernel(uint32_t id, const KernelDescription& description,
                           std::function<void(uint32_t)> unload)
    : id_(id), description_(description), unload_(std::move(unload)) {
  for (uint32_t i = 0; i < description_.argument_count; ++i) {
    const KernelDescription::Argument& argument = description_.arguments[i];
    arguments_.push_back(
        {argument.name, static_cast<pto_direction>(argument.direction), argument.dtypes});
    overlaps_.push_back({argument.same, argument.any});
  }
  for (uint32_t i = 0; i < description_.scalar_count; ++i) {
    const KernelDescription::Scalar& scalar = description_.scalars[i];
    scalars_.push_back({scalar.name, static_cast<pto_scalar_type>(scalar.type)});
  }
  info_.struct_size = sizeof info_;
  info_.name = description_.name;
  info_.description = description_.description;
  info_.default_core = static_cast<pto_core>(description_.default_core);
  info_.arguments = arguments_.data();
  info_.argument_count = description_.argument_count;
  info_.scalars = scalars_.data();
  info_.scalar_count = description_.scalar_count;
  info_.requires_sync_start = description_.requires_sync_start;
  info_.flags = description_.flags;
  info_.overlaps = overlaps_.data();
}

HostedKernel::~HostedKernel() {
  if (unload_ != nullptr) unload_(id_);
}

}  // namespace pto::host

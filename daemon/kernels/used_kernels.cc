#include "daemon/kernels/used_kernels.h"

#include <utility>

namespace pto::daemon {

void KernelIdentities::Add(const void* code, std::shared_ptr<const KernelIdentity> identity) {
  MutexLock lock(mutex_);
  identities_[code] = std::move(identity);
}

void KernelIdentities::Remove(const void* code) {
  MutexLock lock(mutex_);
  identities_.erase(code);
}

std::shared_ptr<const UsedKernels> KernelIdentities::Of(
    absl::Span<const std::shared_ptr<const Kernel>> kernels) const {
  std::shared_ptr<UsedKernels> used;
  for (const std::shared_ptr<const Kernel>& kernel : kernels) {
    if (kernel->lane() == nullptr) continue;
    MutexLock lock(mutex_);
    const auto found = identities_.find(kernel->data());
    if (found == identities_.end()) continue;
    if (used == nullptr) used = std::make_shared<UsedKernels>();
    used->push_back(found->second);
  }
  return used;
}

}  // namespace pto::daemon

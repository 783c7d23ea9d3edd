#include "kernels/registry.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {

absl::Status KernelRegistry::Add(std::shared_ptr<const Kernel> kernel) {
  const absl::string_view name = kernel->name();
  MutexLock lock(mutex_);
  if (kernels_.try_emplace(name, std::move(kernel)).second) return absl::OkStatus();
  return Error(reason::kIdConflict, absl::StrCat("there is a kernel '", name, "' already"))
      .At("name")
      .With("kernel", name);
}

absl::Status KernelRegistry::Add(const pto_kernel_info& info) {
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const Kernel> kernel, Kernel::BuiltIn(info));
  return Add(std::move(kernel));
}

std::shared_ptr<const Kernel> KernelRegistry::Remove(absl::string_view name) {
  // The caller gets the kernel, so the last reference is never released under the lock.
  MutexLock lock(mutex_);
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) return nullptr;
  std::shared_ptr<const Kernel> kernel = std::move(found->second);
  kernels_.erase(found);
  return kernel;
}

std::shared_ptr<const Kernel> KernelRegistry::Find(absl::string_view name) const {
  {
    MutexLock lock(mutex_);
    const auto found = kernels_.find(name);
    if (found != kernels_.end()) return found->second;
  }
  return parent_ == nullptr ? nullptr : parent_->Find(name);
}

std::vector<std::shared_ptr<const Kernel>> KernelRegistry::List() const {
  std::vector<std::shared_ptr<const Kernel>> list;
  {
    MutexLock lock(mutex_);
    list.reserve(kernels_.size());
    for (const auto& [name, kernel] : kernels_) list.push_back(kernel);
  }
  const auto less = [](const std::shared_ptr<const Kernel>& a,
                       const std::shared_ptr<const Kernel>& b) { return a->name() < b->name(); };
  std::sort(list.begin(), list.end(), less);
  if (parent_ == nullptr) return list;
  // If both have a name, set_union takes the first.
  const std::vector<std::shared_ptr<const Kernel>> others = parent_->List();
  std::vector<std::shared_ptr<const Kernel>> all;
  all.reserve(list.size() + others.size());
  std::set_union(list.begin(), list.end(), others.begin(), others.end(), std::back_inserter(all),
                 less);
  return all;
}

}  // namespace pto

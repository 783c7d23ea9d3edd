#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "kernels/kernel.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Which uploaded kernel a graph meant with a name. A name may mean another one later, and then the
// same request is another one.
struct UsedKernel {
  std::string name;      // its id
  std::string identity;  // of its file, entry and signature
};
using UsedKernels = std::vector<UsedKernel>;

// The identities of uploaded kernels as long as anything uses them, also when they were deleted.
// Thread-safe.
class KernelIdentities {
 public:
  // `code` is Kernel::data.
  void Add(const void* code, std::string identity);
  void Remove(const void* code);
  // The uploaded ones among these kernels; nullptr if there are none.
  std::shared_ptr<const UsedKernels> Of(
      absl::Span<const std::shared_ptr<const Kernel>> kernels) const;

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<const void*, std::string> identities_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon

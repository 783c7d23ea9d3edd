#pragma once

#include <cstdint>
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
struct KernelIdentity {
  std::string name;  // its id
  std::string hash;  // of its file, entry and signature: 32 bytes
};
// Runs have these long after their kernels have gone, so they share them.
using UsedKernels = std::vector<std::shared_ptr<const KernelIdentity>>;

// The memory of one of them at most, when nobody else has it.
inline constexpr uint64_t kUsedKernelBytes = 256;

// The identities of uploaded kernels as long as anything uses them, also when they were deleted.
// Thread-safe.
class KernelIdentities {
 public:
  // `code` is Kernel::data.
  void Add(const void* code, std::shared_ptr<const KernelIdentity> identity);
  void Remove(const void* code);
  // The uploaded ones among these kernels; nullptr if there are none.
  std::shared_ptr<const UsedKernels> Of(
      absl::Span<const std::shared_ptr<const Kernel>> kernels) const;

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<const void*, std::shared_ptr<const KernelIdentity>> identities_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon

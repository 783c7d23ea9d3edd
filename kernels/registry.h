#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

namespace pto {

// What the kernel says of overlaps of an argument; nothing when it was built before it could.
pto_overlap_info OverlapOf(const pto_kernel_info& info, uint32_t argument);

// The kernels that tasks can name. Filled before it is shared, then read only; so it needs no
// lock. Does not own the infos.
class KernelRegistry {
 public:
  // Refuses a malformed info (INVALID_ARGUMENT) and a name that is taken (ALREADY_EXISTS).
  absl::Status Add(const pto_kernel_info& info);

  // Returns nullptr when there is none of that name.
  const pto_kernel_info* Find(absl::string_view name) const;

  // In order of name.
  std::vector<const pto_kernel_info*> List() const;

 private:
  absl::flat_hash_map<std::string, const pto_kernel_info*> kernels_;
};

}  // namespace pto

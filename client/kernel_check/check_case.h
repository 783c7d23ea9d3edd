#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/kernel_check/guarded_tensor.h"
#include "client/kernel_check/options.h"
#include "kernels/pto_kernel.h"

namespace pto::kernel_check {

// One input of a kernel: everything but the memory. The same options and index give the same case.
struct Case {
  struct Argument {
    uint32_t dtype = 0;
    std::vector<int64_t> shape;
    Layout layout = Layout::kLeft;
    ValueRange values;
  };
  uint32_t index = 0;
  std::vector<Argument> arguments;
  std::vector<pto_scalar> scalars;
  uint32_t blocks = 1;
  uint64_t seed = 0;  // of the values

  std::string Describe(const pto_kernel_info& info) const;
};

// Chooses a case. `may_be_empty`: whether tensors may have no elements. USAGE if the options name a
// tensor or scalar that the kernel does not have.
absl::StatusOr<Case> MakeCase(const pto_kernel_info& info, const Options& options, uint32_t index,
                              bool may_be_empty);

}  // namespace pto::kernel_check

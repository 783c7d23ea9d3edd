#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/pto_kernel.h"

// Estimates for pto_kernel_info.cost: times of one core that is faster than any, with all data in
// its caches.
namespace pto::kernels {

inline constexpr double kNsPerByte = 0.05;
inline constexpr double kNsPerElement = 0.1;  // that is converted or added to a sum
inline constexpr double kNsPerProduct = 0.02;

// The number of elements, which may be larger than any integer.
inline double CountOf(const pto_tensor& tensor) {
  double count = 1;
  for (uint32_t d = 0; d < tensor.ndim; ++d) count *= static_cast<double>(tensor.shape[d]);
  return count;
}

// For kernels that go through all elements of all tensors once.
inline double CostOfAll(const pto_tensor* tensors, uint32_t count) {
  double most = 0;
  for (uint32_t i = 0; i < count; ++i) {
    most = std::max(most, CountOf(tensors[i]) * static_cast<double>(DtypeSize(tensors[i].dtype)));
  }
  return most * kNsPerByte;
}

}  // namespace pto::kernels

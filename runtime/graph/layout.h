#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

namespace pto::engine {

// Type, shape and strides of a tensor. Plain data, so that it can be stored in a graph image.
struct Layout {
  uint32_t dtype = 0;  // pto_dtype
  uint32_t ndim = 0;
  std::array<int64_t, PTO_MAX_DIMS> shape{};
  std::array<int64_t, PTO_MAX_DIMS> strides{};
  // Elements from the first to the last, both included; 0 if a dimension is 0.
  int64_t extent = 0;

  bool operator==(const Layout&) const = default;
};

// Checks its arguments and computes the extent. Empty strides mean contiguous. Errors are
// TENSOR_INVALID at `dtype`, `shape[i]` or `strides[i]`.
absl::StatusOr<Layout> MakeLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                  absl::Span<const int64_t> strides);

// The maximum number of elements of a tensor, and its maximum offset. Far below the range of int64,
// so that sums of products cannot overflow either.
inline constexpr int64_t kMaxElements = int64_t{1} << 56;

// Whether the offset is valid for a tensor.
inline bool IsOffset(int64_t offset) { return offset >= 0 && offset <= kMaxElements; }

// Bytes that a buffer needs to hold the layout at `offset` (in elements). 0 for an empty tensor.
// Errors are TENSOR_INVALID at `offset`.
absl::StatusOr<uint64_t> BytesNeeded(const Layout& layout, int64_t offset);

// For example `[3,4]`.
std::string ShapeText(const Layout& layout);

}  // namespace pto::engine

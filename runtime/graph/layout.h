#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

namespace pto {

// Type, shape and strides of a tensor. Plain data, so that it can live in a graph image.
struct Layout {
  uint32_t dtype = 0;  // pto_dtype
  uint32_t ndim = 0;
  std::array<int64_t, PTO_MAX_DIMS> shape{};
  std::array<int64_t, PTO_MAX_DIMS> strides{};
  // Elements from the first to the last, both included; 0 when a dimension is 0.
  int64_t extent = 0;

  bool operator==(const Layout&) const = default;
};

// Checks everything that can be wrong and computes the extent. Empty strides mean contiguous.
// Errors are TENSOR_INVALID at `dtype`, `shape[i]` or `strides[i]`.
absl::StatusOr<Layout> MakeLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                  absl::Span<const int64_t> strides);

// Elements that a tensor has at most, and its largest offset. Far below what int64 holds, so that
// sums of products cannot overflow unnoticed either.
inline constexpr int64_t kMaxElements = int64_t{1} << 56;

// Whether a tensor can be at that offset.
inline bool IsOffset(int64_t offset) { return offset >= 0 && offset <= kMaxElements; }

// Bytes that a buffer must have to hold the layout at `offset` (in elements). 0 for an empty
// tensor. Errors are TENSOR_INVALID at `offset`.
absl::StatusOr<uint64_t> BytesNeeded(const Layout& layout, int64_t offset);

// Such as `[3,4]`.
std::string ShapeText(const Layout& layout);

}  // namespace pto

#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "kernels/pto_kernel.h"
#include "runtime/graph/layout.h"

namespace pto {

// The bytes that a layout touches, from its first: all sums of one multiple of each stride,
// where the multiple goes from 0 to size - 1. Two layouts that touch the same bytes mostly have
// the same footprint: dimensions of size 1 are gone, the others stand by falling stride, in
// whatever order the layout had them, neighbours without a gap are one, and the bytes of an
// element are a dimension too, so that element types do not matter.
struct Footprint {
  static constexpr uint32_t kMaxDims = PTO_MAX_DIMS + 1;
  struct Dim {
    int64_t size = 0;
    int64_t stride = 0;  // in bytes

    bool operator==(const Dim&) const = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Dim& dim) {
      return H::combine(std::move(hash), dim.size, dim.stride);
    }
  };
  uint32_t ndim = 0;  // 0 for a single byte
  std::array<Dim, kMaxDims> dims{};
  // Bytes from the first to the last, both included; 0 when nothing is touched.
  int64_t extent = 0;

  bool operator==(const Footprint&) const = default;
  template <typename H>
  friend H AbslHashValue(H hash, const Footprint& footprint) {
    return H::combine(std::move(hash), footprint.extent, footprint.dims);
  }

  bool empty() const { return extent == 0; }
  bool contiguous() const { return ndim == 0 || (ndim == 1 && dims[0].stride == 1); }
};

// The layout must come from MakeLayout.
Footprint MakeFootprint(const Layout& layout);

// Whether two footprints, placed at these bytes of one space, have a byte in common. Exact for
// all rows, columns, tiles, steps and transposes of tensors: whenever each stride of one of them
// is at least the extent of all that is inside of it, and whenever at most two strides are left
// when those that do so are set apart. Beyond that it gives up, and says yes, on strides so odd
// that an answer would take more than some hundred steps. Adds the steps that it took to `steps`.
bool Overlaps(const Footprint& a, int64_t a_begin, const Footprint& b, int64_t b_begin,
              uint64_t* steps = nullptr);

// Whether the outer one has all bytes of the inner one. A yes is certain; a no may be wrong when
// the strides of the inner one are not multiples of those of the outer one. Adds the steps that
// it took to `steps`.
bool Covers(const Footprint& outer, int64_t outer_begin, const Footprint& inner,
            int64_t inner_begin, uint64_t* steps = nullptr);

}  // namespace pto

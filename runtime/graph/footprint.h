#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "kernels/pto_kernel.h"
#include "runtime/graph/layout.h"

namespace pto::engine {

// The bytes that a layout touches, relative to its first byte: all sums of one multiple of each
// stride, with multiples from 0 to size - 1. Layouts that touch the same bytes usually have equal
// footprints: dimensions of size 1 are dropped, the others are sorted by decreasing stride,
// adjacent dimensions without a gap are merged, and the bytes of an element are a dimension too, so
// that element types do not matter.
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
  // Bytes from the first to the last, both included; 0 if the layout touches nothing.
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

// Whether two footprints at these offsets of one space have a byte in common. Exact for all rows,
// columns, tiles, steps and transposes of tensors: exact if each stride is at least the extent of
// everything inside it, or if at most two strides violate this. For other strides it may give up
// after some hundred steps, and then returns true. Adds its steps to `steps`.
bool Overlaps(const Footprint& a, int64_t a_begin, const Footprint& b, int64_t b_begin,
              uint64_t* steps = nullptr);

// Whether the outer footprint contains all bytes of the inner one. True is certain; false may be
// wrong if the inner strides are not multiples of the outer ones. Adds its steps to `steps`.
bool Covers(const Footprint& outer, int64_t outer_begin, const Footprint& inner,
            int64_t inner_begin, uint64_t* steps = nullptr);

}  // namespace pto::engine

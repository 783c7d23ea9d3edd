#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/block.h"
#include "kernels/pto_kernel.h"

namespace pto::kernels {

// The number of elements in the view; 0 if a dimension is 0.
inline int64_t ElementCount(const pto_tensor& tensor) {
  int64_t count = 1;
  for (uint32_t d = 0; d < tensor.ndim; ++d) {
    // Checked first: the product of the others may overflow an int64_t.
    if (tensor.shape[d] == 0) return 0;
  }
  for (uint32_t d = 0; d < tensor.ndim; ++d) count *= tensor.shape[d];
  return count;
}

// Iterates over N views of one shape in row-major order. Dimensions that are contiguous in all
// views are merged, so that runs are as long as possible.
template <size_t N>
class StridedRange {
 public:
  using PerView = std::array<int64_t, N>;
  // See ForEach.
  using Run = absl::FunctionRef<void(const PerView& offsets, const PerView& strides, int64_t count,
                                     int64_t first)>;

  explicit StridedRange(const std::array<const pto_tensor*, N>& views)
      : size_(ElementCount(*views[0])) {
    if (size_ == 0) return;
    const pto_tensor& first = *views[0];
    for (uint32_t d = 0; d < first.ndim; ++d) {
      if (first.shape[d] == 1) continue;
      PerView strides;
      for (size_t v = 0; v < N; ++v) strides[v] = views[v]->strides[d];
      AddDimension(first.shape[d], strides);
    }
    if (ndim_ == 0) {
      PerView ones;
      ones.fill(1);
      AddDimension(1, ones);
    }
  }

  int64_t size() const { return size_; }
  // The number of dimensions after merging; 0 if there are no elements.
  size_t ndim() const { return ndim_; }
  // Whether the elements lie next to each other in all views, many in a row.
  bool HasLongRuns() const {
    constexpr int64_t kLong = 512;
    if (ndim_ == 0 || shape_[ndim_ - 1] < kLong) return false;
    const PerView& strides = strides_[ndim_ - 1];
    return std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 1; });
  }

  // Calls `run(offsets, strides, count, first)` for each run of elements `begin` to `end`
  // (excluded). The first element of a run has number `first` and offset offsets[v] in view v; the
  // others follow in steps of strides[v].
  void ForEach(int64_t begin, int64_t end, Run run) const {
    if (begin >= end) return;
    std::array<int64_t, PTO_MAX_DIMS> index{};
    PerView offsets{};
    int64_t rest = begin;
    for (size_t d = ndim_; d-- > 0;) {
      index[d] = rest % shape_[d];
      rest /= shape_[d];
      for (size_t v = 0; v < N; ++v) offsets[v] += index[d] * strides_[d][v];
    }
    const size_t inner = ndim_ - 1;
    for (int64_t at = begin;;) {
      const int64_t count = std::min(shape_[inner] - index[inner], end - at);
      run(offsets, strides_[inner], count, at);
      at += count;
      if (at == end) return;
      // The run has reached the end of the inner dimension: advance the outer ones.
      for (size_t v = 0; v < N; ++v) offsets[v] -= index[inner] * strides_[inner][v];
      index[inner] = 0;
      for (size_t d = inner; d-- > 0;) {
        if (++index[d] < shape_[d]) {
          for (size_t v = 0; v < N; ++v) offsets[v] += strides_[d][v];
          break;
        }
        for (size_t v = 0; v < N; ++v) offsets[v] -= (index[d] - 1) * strides_[d][v];
        index[d] = 0;
      }
    }
  }

 private:
  void AddDimension(int64_t extent, const PerView& strides) {
    if (ndim_ > 0) {
      bool joins = true;
      for (size_t v = 0; v < N; ++v) {
        joins = joins && strides_[ndim_ - 1][v] == strides[v] * extent;
      }
      if (joins) {
        shape_[ndim_ - 1] *= extent;
        strides_[ndim_ - 1] = strides;
        return;
      }
    }
    shape_[ndim_] = extent;
    strides_[ndim_] = strides;
    ++ndim_;
  }

  int64_t size_;
  size_t ndim_ = 0;
  std::array<int64_t, PTO_MAX_DIMS> shape_{};
  std::array<PerView, PTO_MAX_DIMS> strides_{};
};

// Processes `share` of `range`. Returns false if it stopped early because the run was cancelled.
template <size_t N>
bool ForShare(const pto_context* context, const StridedRange<N>& range, Share share,
              typename StridedRange<N>::Run run) {
  // Well below a millisecond of work between two checks. Elements that are not in long dense runs
  // may each need a cache line of every view, and so take much longer.
  constexpr int64_t kDensePiece = int64_t{1} << 18;
  constexpr int64_t kStridedPiece = int64_t{1} << 13;
  const int64_t piece = range.HasLongRuns() ? kDensePiece : kStridedPiece;
  for (int64_t at = share.begin; at < share.end; at += piece) {
    if (Cancelled(context)) return false;
    range.ForEach(at, std::min(at + piece, share.end), run);
  }
  return true;
}

}  // namespace pto::kernels

// Put this before a loop whose iterations are independent although its pointers may be equal: GCC
// then vectorises without an overlap check. `__restrict` would have the same effect, but forbid
// `out` to be one of the inputs. Clang treats the hint as a requirement, and fails.
#if defined(__clang__)
#define PTO_INDEPENDENT
#else
#define PTO_INDEPENDENT _Pragma("GCC ivdep")
#endif

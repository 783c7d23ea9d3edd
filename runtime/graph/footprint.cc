#include "runtime/graph/footprint.h"

#include <algorithm>
#include <numeric>

#include "kernels/dtype.h"

namespace pto::engine {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t CeilDivide(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

// The least k >= 0 with stride * k mod modulus in [low, high], or -1 if there is none, with 0 <=
// stride < modulus and 0 < low <= high < modulus. As fast as Euclid's algorithm, and similar to it;
// adds its rounds to `steps`. T must hold the square of the modulus.
template <typename T>
T FirstWithin(T stride, T modulus, T low, T high, int& steps) {
  ++steps;
  if (stride == 0) return -1;
  // Going backwards, the multiples have shorter steps.
  if (2 * stride > modulus) {
    stride = modulus - stride;
    const T turned = modulus - high;
    high = modulus - low;
    low = turned;
  }
  const T first = (low + stride - 1) / stride;
  if (first * stride <= high) return first;
  // No multiple fits before the first wrap-around. Find the start of a round that contains one.
  const T round_low = (stride - high % stride) % stride;
  const T round_high = (stride - low % stride) % stride;
  if (round_low == 0 || round_high < round_low) return -1;
  const T round = FirstWithin<T>(modulus % stride, stride, round_low, round_high, steps);
  return round < 0 ? -1 : (low + modulus * round + stride - 1) / stride;
}

// Whether (stride * k + start) mod modulus <= most for some k from 0 to count.
bool AnyWithin(int64_t stride, int64_t start, int64_t modulus, int64_t most, int64_t count,
               int& steps) {
  stride %= modulus;
  start %= modulus;
  if (start < 0) start += modulus;
  if (start <= most) return true;
  const int64_t low = modulus - start, high = low + most;
  __extension__ using Wide = __int128;
  const bool small = modulus < int64_t{1} << 31;
  const Wide first = small ? Wide{FirstWithin<int64_t>(stride, modulus, low, high, steps)}
                           : FirstWithin<Wide>(stride, modulus, low, high, steps);
  return first >= 0 && first <= count;
}

// The set of sums of one multiple of each stride, where each multiple has bounds.
class BoundedSum {
 public:
  // Add by decreasing stride. Requires low <= high.
  void Add(int64_t stride, int64_t low, int64_t high) { terms_[count_++] = {stride, low, high}; }

  // Whether `target` is such a sum; `if_unsure` if finding out takes too long.
  bool Reaches(int64_t target, bool if_unsure) {
    rest_[count_] = {0, 0, true};
    for (uint32_t i = count_; i-- > 0;) {
      const Term& term = terms_[i];
      const Rest& inner = rest_[i + 1];
      rest_[i] = {
          inner.low + term.low * term.stride, inner.high + term.high * term.stride,
          inner.dense && (term.low == term.high || term.stride <= inner.high - inner.low + 1)};
    }
    steps_ = 0;
    const bool reached = ReachesFrom(0, target);
    return steps_ > kMaxSteps ? if_unsure : reached;
  }

  // The steps taken by the last answer.
  int steps() const { return steps_; }

 private:
  struct Term {
    int64_t stride, low, high;
  };
  // For the terms from here on: the least and the greatest sum, and whether all numbers in between
  // are sums.
  struct Rest {
    int64_t low, high;
    bool dense;
  };
  static constexpr int kMaxSteps = 512;

  bool ReachesFrom(uint32_t i, int64_t target) {
    if (target < rest_[i].low || target > rest_[i].high) return false;
    if (rest_[i].dense) return true;
    // The remainder must be within reach of the inner terms. If strides are at least as long as the
    // extent of the inner terms, at most two multiples have to be tried.
    const Term& term = terms_[i];
    const Rest& inner = rest_[i + 1];
    const int64_t first = std::max(term.low, CeilDivide(target - inner.high, term.stride));
    const int64_t last = std::min(term.high, FloorDivide(target - inner.low, term.stride));
    if (first > last) return false;
    if (inner.dense) return true;
    if (last - first >= kFewMultiples) {
      if (rest_[i + 2].dense) return ReachesWithTwo(i, target, first, last);
      if (!MayReach(i, target)) return false;
    }
    for (int64_t multiple = first; multiple <= last; ++multiple) {
      if (++steps_ > kMaxSteps || ReachesFrom(i + 1, target - multiple * term.stride)) return true;
    }
    return false;
  }

  // The same if all terms except this one and the next are dense, and this one has only the given
  // multiples: the other terms reach the remainder if, modulo the stride of the next term, it is
  // small enough.
  bool ReachesWithTwo(uint32_t i, int64_t target, int64_t first, int64_t last) {
    const Rest& dense = rest_[i + 2];
    const int64_t start = terms_[i].stride * first - (target - dense.high);
    return AnyWithin(terms_[i].stride, start, terms_[i + 1].stride, dense.high - dense.low,
                     last - first, steps_);
  }

  // Sums of multiples are multiples of the greatest common divisor, apart from the dense part.
  bool MayReach(uint32_t i, int64_t target) {
    uint32_t end = i;
    int64_t divisor = 0;
    for (; !rest_[end].dense; ++end) divisor = std::gcd(divisor, terms_[end].stride);
    ++steps_;
    return FloorDivide(target - rest_[end].low, divisor) * divisor >= target - rest_[end].high;
  }

  // Up to this many multiples are tried one by one.
  static constexpr int64_t kFewMultiples = 3;

  uint32_t count_ = 0;
  int steps_ = 0;
  Term terms_[2 * Footprint::kMaxDims];
  Rest rest_[2 * Footprint::kMaxDims + 1];
};

// Rows of bytes, one every `pitch` bytes; a pitch of 0 means a single row.
struct Rows {
  int64_t count = 1;
  int64_t pitch = 0;
  int64_t width = 1;
};

// Whether the footprint consists of such rows.
bool IsRows(const Footprint& footprint, Rows* rows) {
  uint32_t next = 0;
  if (next < footprint.ndim && footprint.dims[next].stride > 1) {
    rows->count = footprint.dims[next].size;
    rows->pitch = footprint.dims[next++].stride;
  }
  if (next < footprint.ndim && footprint.dims[next].stride == 1) {
    rows->width = footprint.dims[next++].size;
  }
  return next == footprint.ndim;
}

}  // namespace

Footprint MakeFootprint(const Layout& layout) {
  Footprint footprint;
  if (layout.extent == 0) return footprint;
  const auto element = static_cast<int64_t>(kernels::DtypeSize(layout.dtype));
  std::array<Footprint::Dim, Footprint::kMaxDims> dims;  // by increasing stride
  uint32_t count = 0;
  if (element > 1) dims[count++] = {element, 1};
  for (uint32_t i = 0; i < layout.ndim; ++i) {
    if (layout.shape[i] == 1) continue;
    const int64_t stride = layout.strides[i] * element;
    uint32_t at = count++;
    for (; at > 0 && dims[at - 1].stride > stride; --at) dims[at] = dims[at - 1];
    dims[at] = {layout.shape[i], stride};
  }
  // From the inside out: a dimension whose steps touch or overlap only makes the next inner
  // dimension longer.
  std::array<Footprint::Dim, Footprint::kMaxDims> merged;
  uint32_t merged_count = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (merged_count > 0) {
      Footprint::Dim& inner = merged[merged_count - 1];
      const int64_t ratio = dims[i].stride / inner.stride;
      if (dims[i].stride % inner.stride == 0 && ratio <= inner.size) {
        inner.size += (dims[i].size - 1) * ratio;
        continue;
      }
    }
    merged[merged_count++] = dims[i];
  }
  footprint.ndim = merged_count;
  footprint.extent = 1;
  for (uint32_t i = 0; i < merged_count; ++i) {
    footprint.dims[i] = merged[merged_count - 1 - i];
    footprint.extent += (footprint.dims[i].size - 1) * footprint.dims[i].stride;
  }
  return footprint;
}

bool Overlaps(const Footprint& a, int64_t a_begin, const Footprint& b, int64_t b_begin,
              uint64_t* steps) {
  if (a.empty() || b.empty()) return false;
  const int64_t distance = b_begin - a_begin;
  if (distance >= a.extent || -distance >= b.extent) return false;
  if (distance == 0 || (a.contiguous() && b.contiguous())) return true;
  // Most footprints are rows of one matrix. If two rows are k pitches apart, the row in `b` begins
  // `distance` minus k pitches after the row in `a`; they overlap if this is less than their
  // widths.
  Rows a_rows, b_rows;
  if (IsRows(a, &a_rows) && IsRows(b, &b_rows) &&
      (a_rows.pitch == b_rows.pitch || a_rows.pitch == 0 || b_rows.pitch == 0)) {
    const int64_t pitch = std::max(a_rows.pitch, b_rows.pitch);
    const int64_t first =
        std::max(1 - b_rows.count, CeilDivide(distance - a_rows.width + 1, pitch));
    const int64_t last =
        std::min(a_rows.count - 1, FloorDivide(distance + b_rows.width - 1, pitch));
    return first <= last;
  }
  // A common byte is a position in `a` and one in `b` that differ by the distance.
  BoundedSum sum;
  uint32_t i = 0, j = 0;
  while (i < a.ndim || j < b.ndim) {
    const int64_t a_stride = i < a.ndim ? a.dims[i].stride : 0;
    const int64_t b_stride = j < b.ndim ? b.dims[j].stride : 0;
    const int64_t stride = std::max(a_stride, b_stride);
    const int64_t low = b_stride == stride ? 1 - b.dims[j++].size : 0;
    const int64_t high = a_stride == stride ? a.dims[i++].size - 1 : 0;
    sum.Add(stride, low, high);
  }
  const bool overlaps = sum.Reaches(distance, true);
  if (steps != nullptr) *steps += static_cast<uint64_t>(sum.steps());
  return overlaps;
}

bool Covers(const Footprint& outer, int64_t outer_begin, const Footprint& inner,
            int64_t inner_begin, uint64_t* steps) {
  if (inner.empty()) return true;
  if (outer.empty()) return false;
  const int64_t distance = inner_begin - outer_begin;
  if (distance < 0 || distance + inner.extent > outer.extent) return false;
  if (outer.contiguous()) return true;
  // Lay the inner footprint along the dimensions of the outer one, then look for a position where
  // that box fits.
  std::array<int64_t, Footprint::kMaxDims> last{};
  for (uint32_t i = 0; i < inner.ndim; ++i) {
    const Footprint::Dim& dim = inner.dims[i];
    uint32_t along = 0;
    while (along < outer.ndim && dim.stride % outer.dims[along].stride != 0) ++along;
    if (along == outer.ndim) return false;
    last[along] += (dim.size - 1) * (dim.stride / outer.dims[along].stride);
  }
  BoundedSum sum;
  for (uint32_t i = 0; i < outer.ndim; ++i) {
    const int64_t room = outer.dims[i].size - 1 - last[i];
    if (room < 0) return false;
    sum.Add(outer.dims[i].stride, 0, room);
  }
  const bool covers = sum.Reaches(distance, false);
  if (steps != nullptr) *steps += static_cast<uint64_t>(sum.steps());
  return covers;
}

}  // namespace pto::engine

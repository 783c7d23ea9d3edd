#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "kernels/block.h"
#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/strided.h"
#include "kernels/tile.h"

namespace pto::kernels {
namespace {

constexpr pto_argument_info kArguments[] = {{"in", PTO_INPUT, kArithmeticTypes},
                                            {"out", PTO_OUTPUT, kArithmeticTypes}};
// One block reads everything before it writes.
constexpr pto_overlap_info kOverlaps[] = {{}, {.same = 0, .any = PTO_ARGUMENT_BIT(0)}};

// Sums in double, in a fixed order. Several parallel sums avoid waiting for the latency of each
// addition.
class FloatSum {
 public:
  template <typename T>
  void AddRun(const T* from, int64_t stride, int64_t count) {
    if constexpr (std::is_same_v<T, float>) {
      if (stride == 1) return AddDense(from, count);
    }
    constexpr int64_t kTile = 256;
    float tile[kTile];
    for (int64_t at = 0; at < count; at += kTile) {
      const int64_t n = std::min(kTile, count - at);
      LoadTile(from + at * stride, stride, n, tile);
      AddDense(tile, n);
    }
  }

  double Total() const {
    return ((sums_[0] + sums_[4]) + (sums_[1] + sums_[5])) +
           ((sums_[2] + sums_[6]) + (sums_[3] + sums_[7]));
  }

 private:
  void AddDense(const float* from, int64_t count) {
    std::array<double, 8> sums = sums_;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
      for (size_t lane = 0; lane < 8; ++lane) sums[lane] += static_cast<double>(from[i + lane]);
    }
    for (; i < count; ++i) sums[i % 8] += static_cast<double>(from[i]);
    sums_ = sums;
  }

  std::array<double, 8> sums_{};
};

// Sums modulo 2^64; the lower bits are the wrapped sum of any smaller type.
class IntegerSum {
 public:
  template <typename T>
  void AddRun(const T* from, int64_t stride, int64_t count) {
    uint64_t sum = sum_;
    if (stride == 1) {
      for (int64_t i = 0; i < count; ++i) sum += static_cast<uint64_t>(int64_t{from[i]});
    } else {
      for (int64_t i = 0; i < count; ++i) sum += static_cast<uint64_t>(int64_t{from[i * stride]});
    }
    sum_ = sum;
  }

  uint64_t Total() const { return sum_; }

 private:
  uint64_t sum_ = 0;
};

int32_t ReduceSum(const pto_context* context) {
  // Blocks run in any order, so no block could add up the results of the others.
  if (context->block_index != 0) return 0;
  const pto_tensor& in = context->tensors[0];
  const pto_tensor& out = context->tensors[1];
  return WithElementType(context, in.dtype, [&](auto type) {
    using T = decltype(type);
    std::conditional_t<std::is_integral_v<T>, IntegerSum, FloatSum> sum;
    const StridedRange<1> range({&in});
    const bool done =
        ForShare(context, range, {0, range.size()},
                 [&](const auto& offsets, const auto& strides, int64_t count, int64_t) {
                   sum.AddRun(static_cast<const T*>(in.data) + offsets[0], strides[0], count);
                 });
    if (!done) return 0;
    if constexpr (std::is_integral_v<T>) {
      *static_cast<T*>(out.data) = static_cast<T>(sum.Total());
    } else {
      *static_cast<T*>(out.data) = Element<T>::FromDouble(sum.Total());
    }
    return 0;
  });
}

int32_t CheckReduceSum(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  const Check check{"reduce_sum", kArguments, tensors, count, message, size};
  if (int32_t refused = check.Count()) return refused;
  if (int32_t refused = check.SameDtype(2)) return refused;
  return check.OneElement(1);
}

constexpr pto_kernel_info kKernels[] = {{
    .struct_size = sizeof(pto_kernel_info),
    .name = "reduce_sum",
    .description = "Sets the one element of out to the sum of in; floats are summed in double, "
                   "integers wrap; block 0 does all the work.",
    .function = ReduceSum,
    .check = CheckReduceSum,
    .default_core = PTO_AIV,
    .arguments = kArguments,
    .argument_count = std::size(kArguments),
    .scalars = nullptr,
    .scalar_count = 0,
    .requires_sync_start = 0,
    .flags = 0,
    .control = PTO_CONTROL_NONE,
    .overlaps = kOverlaps,
    .cost = CostOfAll,
}};

}  // namespace

absl::Span<const pto_kernel_info> ReduceKernels() { return kKernels; }

}  // namespace pto::kernels

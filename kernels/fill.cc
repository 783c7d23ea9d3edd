#include <cstdint>
#include <iterator>
#include <type_traits>

#include "kernels/block.h"
#include "kernels/builtin.h"
#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/stream.h"
#include "kernels/strided.h"

namespace pto::kernels {
namespace {

constexpr pto_argument_info kArguments[] = {{"out", PTO_OUTPUT, kArithmeticTypes}};
constexpr pto_scalar_info kFillScalars[] = {{"value", PTO_FLOAT}};
constexpr pto_scalar_info kIotaScalars[] = {{"start", PTO_FLOAT}, {"step", PTO_FLOAT}};

int32_t Fill(const pto_context* context) {
  const pto_tensor& out = context->tensors[0];
  const double value = context->scalars[0].f64;
  return WithElementType(context, out.dtype, [&](auto type) {
    using T = decltype(type);
    const T element = Element<T>::FromDouble(value);
    const StridedRange<1> range({&out});
    const bool streamed = IsStreamed(out, {});
    ForShare(context, range, BlockShare(context, range.size()),
             [&](const auto& offsets, const auto& strides, int64_t count, int64_t) {
               T* to = static_cast<T*>(out.data) + offsets[0];
               const T same = element;  // a copy, which `to` cannot point at
               if (strides[0] == 1 && streamed) {
                 StreamRun(to, count, [same](int64_t, int64_t n, T* part) {
                   for (int64_t i = 0; i < n; ++i) part[i] = same;
                 });
               } else if (strides[0] == 1) {
                 for (int64_t i = 0; i < count; ++i) to[i] = same;
               } else {
                 for (int64_t i = 0; i < count; ++i) to[i * strides[0]] = same;
               }
             });
    return 0;
  });
}

// Element number i of iota.
template <typename T>
class Sequence {
 public:
  Sequence(double start, double step) : start_(start), step_(step) {}
  T At(int64_t i) const { return Element<T>::FromDouble(start_ + step_ * static_cast<double>(i)); }

 private:
  double start_;
  double step_;
};

template <typename T>
  requires std::is_integral_v<T>
class Sequence<T> {
 public:
  Sequence(double start, double step)
      : start_(Element<T>::Scalar(start)), step_(Element<T>::Scalar(step)) {}
  T At(int64_t i) const {
    return Element<T>::Store(start_ + step_ * static_cast<typename Element<T>::Math>(i));
  }

 private:
  typename Element<T>::Math start_;
  typename Element<T>::Math step_;
};

int32_t Iota(const pto_context* context) {
  const pto_tensor& out = context->tensors[0];
  return WithElementType(context, out.dtype, [&](auto type) {
    using T = decltype(type);
    const Sequence<T> sequence(context->scalars[0].f64, context->scalars[1].f64);
    const StridedRange<1> range({&out});
    const bool streamed = IsStreamed(out, {});
    ForShare(context, range, BlockShare(context, range.size()),
             [&](const auto& offsets, const auto& strides, int64_t count, int64_t first) {
               T* to = static_cast<T*>(out.data) + offsets[0];
               if (strides[0] == 1 && streamed) {
                 StreamRun(to, count, [&](int64_t at, int64_t n, T* part) {
                   for (int64_t i = 0; i < n; ++i) part[i] = sequence.At(first + at + i);
                 });
               } else if (strides[0] == 1) {
                 for (int64_t i = 0; i < count; ++i) to[i] = sequence.At(first + i);
               } else {
                 for (int64_t i = 0; i < count; ++i) to[i * strides[0]] = sequence.At(first + i);
               }
             });
    return 0;
  });
}

constexpr pto_kernel_info kKernels[] = {
    {
        .struct_size = sizeof(pto_kernel_info),
        .name = "fill",
        .description = "Sets every element of out to value; integers drop its fraction.",
        .function = Fill,
        .check = nullptr,
        .default_core = PTO_AIV,
        .arguments = kArguments,
        .argument_count = std::size(kArguments),
        .scalars = kFillScalars,
        .scalar_count = std::size(kFillScalars),
        .requires_sync_start = 0,
        .flags = 0,
        .control = PTO_CONTROL_NONE,
        .cost = CostOfAll,
    },
    {
        .struct_size = sizeof(pto_kernel_info),
        .name = "iota",
        .description = "Sets element i of out, in row-major order, to start + i * step; integers "
                       "drop the fractions of both.",
        .function = Iota,
        .check = nullptr,
        .default_core = PTO_AIV,
        .arguments = kArguments,
        .argument_count = std::size(kArguments),
        .scalars = kIotaScalars,
        .scalar_count = std::size(kIotaScalars),
        .requires_sync_start = 0,
        .flags = 0,
        .control = PTO_CONTROL_NONE,
        .cost = CostOfAll,
    },
};

}  // namespace

absl::Span<const pto_kernel_info> FillKernels() { return kKernels; }

}  // namespace pto::kernels

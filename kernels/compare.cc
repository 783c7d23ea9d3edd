#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/block.h"
#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/strided.h"

namespace pto::kernels {
namespace {

constexpr pto_argument_info kArguments[] = {{"a", PTO_INPUT, kArithmeticTypes},
                                            {"b", PTO_INPUT, kArithmeticTypes},
                                            {"mismatches", PTO_OUTPUT, PTO_DTYPE_BIT(PTO_I64)}};
// One block reads everything before it writes.
constexpr pto_overlap_info kOverlaps[] = {
    {}, {}, {.same = 0, .any = PTO_ARGUMENT_BIT(0) | PTO_ARGUMENT_BIT(1)}};
constexpr pto_scalar_info kScalars[] = {{"tolerance", PTO_FLOAT}};

// Two NaN match, and so do two equal infinities; nothing else matches either of them.
bool Differs(float a, float b, double tolerance) {
  if (a == b) return false;
  if (std::isnan(a) || std::isnan(b)) return !(std::isnan(a) && std::isnan(b));
  if (std::isinf(a) || std::isinf(b)) return true;
  const double wide_a = a;
  const double wide_b = b;
  return std::fabs(wide_a - wide_b) > tolerance + tolerance * std::fabs(wide_b);
}

bool Differs(int64_t a, int64_t b, double tolerance) {
  if (a == b) return false;
  // The difference of two int64_t always fits here.
  const uint64_t distance = a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
                                  : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
  return static_cast<double>(distance) > tolerance + tolerance * std::fabs(static_cast<double>(b));
}

template <typename T>
int64_t CountMismatches(const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t count,
                        double tolerance) {
  int64_t mismatches = 0;
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      mismatches += Differs(int64_t{a[i * a_step]}, int64_t{b[i * b_step]}, tolerance) ? 1 : 0;
    } else {
      mismatches +=
          Differs(Element<T>::Load(a[i * a_step]), Element<T>::Load(b[i * b_step]), tolerance) ? 1
                                                                                               : 0;
    }
  }
  return mismatches;
}

int32_t Compare(const pto_context* context) {
  const pto_tensor* tensors = context->tensors;
  const double tolerance = context->scalars[0].f64;
  if (!(tolerance >= 0)) {
    return Fail(context, absl::StrCat("compare: tolerance is ", tolerance,
                                      ", expected a number that is not negative"));
  }
  // Blocks run in any order, so no block could add up the results of the others.
  if (context->block_index != 0) return 0;
  return WithElementType(context, tensors[0].dtype, [&](auto type) {
    using T = decltype(type);
    const T* a = static_cast<const T*>(tensors[0].data);
    const T* b = static_cast<const T*>(tensors[1].data);
    int64_t mismatches = 0;
    const StridedRange<2> range({&tensors[0], &tensors[1]});
    const bool done =
        ForShare(context, range, {0, range.size()},
                 [&](const auto& offsets, const auto& strides, int64_t count, int64_t) {
                   mismatches += CountMismatches(a + offsets[0], strides[0], b + offsets[1],
                                                 strides[1], count, tolerance);
                 });
    if (done) *static_cast<int64_t*>(tensors[2].data) = mismatches;
    return 0;
  });
}

int32_t CheckCompare(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  const Check check{"compare", kArguments, tensors, count, message, size};
  if (int32_t refused = check.Count()) return refused;
  if (int32_t refused = check.SameDtype(2)) return refused;
  if (int32_t refused = check.SameShape(2)) return refused;
  return check.OneElement(2);
}

constexpr pto_kernel_info kKernels[] = {{
    .struct_size = sizeof(pto_kernel_info),
    .name = "compare",
    .description = "Sets mismatches to the number of elements with |a - b| > tolerance + "
                   "tolerance * |b|, or with one NaN; block 0 does all the work.",
    .function = Compare,
    .check = CheckCompare,
    .default_core = PTO_AIV,
    .arguments = kArguments,
    .argument_count = std::size(kArguments),
    .scalars = kScalars,
    .scalar_count = std::size(kScalars),
    .requires_sync_start = 0,
    .flags = 0,
    .control = PTO_CONTROL_NONE,
    .overlaps = kOverlaps,
    .cost = CostOfAll,
}};

}  // namespace

absl::Span<const pto_kernel_info> CompareKernels() { return kKernels; }

}  // namespace pto::kernels

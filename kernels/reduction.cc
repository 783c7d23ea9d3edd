#include "kernels/reduction.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/dtype.h"
#include "kernels/tile.h"

// Elements are independent, even if the output is one of the inputs.
#if defined(__clang__)
// Clang detects this itself, and warns if the pragma has no effect.
#define PTO_EACH_ALONE
#else
#define PTO_EACH_ALONE _Pragma("GCC ivdep")
#endif

namespace pto::kernels {
namespace {

// So few elements that a tile stays in the first-level cache.
constexpr size_t kTile = 1024;
// The number of inputs in one pass: with more, registers and prefetchers run out.
constexpr size_t kPass = 4;

template <ReduceOp op, typename T>
__attribute__((always_inline)) inline T Apply(T a, T b) {
  if constexpr (op == ReduceOp::kSum || op == ReduceOp::kProd) {
    if constexpr (std::is_integral_v<T>) {
      // 64 bits, so that no operand is promoted to int and overflows.
      const auto x = static_cast<uint64_t>(a);
      const auto y = static_cast<uint64_t>(b);
      return static_cast<T>(op == ReduceOp::kSum ? x + y : x * y);
    } else {
      return op == ReduceOp::kSum ? a + b : a * b;
    }
  } else {
    const bool second = op == ReduceOp::kMax ? a < b : b < a;
    if constexpr (std::is_floating_point_v<T>) return (second || b != b) ? b : a;
    return second ? b : a;
  }
}

template <ReduceOp op, typename T, size_t n>
__attribute__((always_inline)) inline void Loop(T* out, const T* const* inputs, size_t count) {
  const T* a = inputs[0];
  const T* b = inputs[1];
  const T* c = n > 2 ? inputs[2] : nullptr;
  const T* d = n > 3 ? inputs[3] : nullptr;
  PTO_EACH_ALONE
  for (size_t i = 0; i < count; ++i) {
    T value = Apply<op>(a[i], b[i]);
    if constexpr (n > 2) value = Apply<op>(value, c[i]);
    if constexpr (n > 3) value = Apply<op>(value, d[i]);
    out[i] = value;
  }
}

#if defined(__x86_64__)

// The same with instructions that not every x86-64 processor has.
bool HaveAvx2() {
  static const bool have = __builtin_cpu_supports("avx2");
  return have;
}

template <ReduceOp op, typename T, size_t n>
__attribute__((target("avx2"))) void LoopAvx2(T* out, const T* const* inputs, size_t count) {
  Loop<op, T, n>(out, inputs, count);
}

#endif

template <ReduceOp op, typename T, size_t n>
void RunLoop(T* out, const T* const* inputs, size_t count) {
#if defined(__x86_64__)
  if (HaveAvx2()) return LoopAvx2<op, T, n>(out, inputs, count);
#endif
  Loop<op, T, n>(out, inputs, count);
}

template <ReduceOp op, typename T>
void Pass(T* out, const T* const* inputs, size_t n, size_t count) {
  switch (n) {
    case 1:
      if (out != inputs[0]) std::memcpy(out, inputs[0], count * sizeof(T));
      return;
    case 2:
      return RunLoop<op, T, 2>(out, inputs, count);
    case 3:
      return RunLoop<op, T, 3>(out, inputs, count);
    default:
      return RunLoop<op, T, 4>(out, inputs, count);
  }
}

// `inputs` are arrays of T.
template <ReduceOp op, typename T>
void ReduceAs(void* out, absl::Span<const void* const> inputs, size_t count) {
  T sum[kTile];
  for (size_t start = 0; start < count; start += kTile) {
    const size_t length = std::min(kTile, count - start);
    const T* group[kPass];
    size_t taken = 0;
    while (taken < inputs.size()) {
      // The intermediate result is the first input of the next pass. Only the last pass writes to
      // `out`, which may be an input that has not been read yet.
      size_t n = 0;
      if (taken > 0) group[n++] = sum;
      while (n < kPass && taken < inputs.size()) {
        group[n++] = static_cast<const T*>(inputs[taken++]) + start;
      }
      Pass<op, T>(taken < inputs.size() ? sum : static_cast<T*>(out) + start, group, n, length);
    }
  }
}

// The same for types whose arithmetic is done in float.
template <ReduceOp op, typename T>
void ReduceHalves(void* out, absl::Span<const void* const> inputs, size_t count) {
  float sum[kTile];
  float next[kTile];
  const float* const both[] = {sum, next};
  for (size_t start = 0; start < count; start += kTile) {
    const size_t length = std::min(kTile, count - start);
    LoadTile(static_cast<const T*>(inputs[0]) + start, 1, length, sum);
    for (const void* input : inputs.subspan(1)) {
      LoadTile(static_cast<const T*>(input) + start, 1, length, next);
      Pass<op, float>(sum, both, 2, length);
    }
    StoreTile(sum, length, static_cast<T*>(out) + start, 1);
  }
}

template <ReduceOp op>
void ReduceTyped(void* out, absl::Span<const void* const> inputs, size_t count, uint32_t dtype) {
  switch (dtype) {
    case PTO_F32:
      return ReduceAs<op, float>(out, inputs, count);
    case PTO_F64:
      return ReduceAs<op, double>(out, inputs, count);
    case PTO_F16:
      return ReduceHalves<op, F16>(out, inputs, count);
    case PTO_BF16:
      return ReduceHalves<op, BF16>(out, inputs, count);
    case PTO_I8:
      return ReduceAs<op, int8_t>(out, inputs, count);
    case PTO_I16:
      return ReduceAs<op, int16_t>(out, inputs, count);
    case PTO_I32:
      return ReduceAs<op, int32_t>(out, inputs, count);
    case PTO_I64:
      return ReduceAs<op, int64_t>(out, inputs, count);
    case PTO_U8:
      return ReduceAs<op, uint8_t>(out, inputs, count);
    case PTO_U16:
      return ReduceAs<op, uint16_t>(out, inputs, count);
    case PTO_U32:
      return ReduceAs<op, uint32_t>(out, inputs, count);
    case PTO_U64:
      return ReduceAs<op, uint64_t>(out, inputs, count);
    default:
      return;
  }
}

}  // namespace

bool IsReducible(uint32_t dtype) { return DtypeSize(dtype) != 0 && dtype != PTO_BOOL; }

bool IsReduceOp(uint32_t op) {
  return op >= static_cast<uint32_t>(ReduceOp::kSum) && op <= static_cast<uint32_t>(ReduceOp::kMin);
}

void Reduce(void* out, absl::Span<const void* const> inputs, size_t count, uint32_t dtype,
            ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ReduceTyped<ReduceOp::kSum>(out, inputs, count, dtype);
    case ReduceOp::kProd:
      return ReduceTyped<ReduceOp::kProd>(out, inputs, count, dtype);
    case ReduceOp::kMax:
      return ReduceTyped<ReduceOp::kMax>(out, inputs, count, dtype);
    case ReduceOp::kMin:
      return ReduceTyped<ReduceOp::kMin>(out, inputs, count, dtype);
  }
}

void ReduceInto(void* accumulator, const void* input, size_t count, uint32_t dtype, ReduceOp op) {
  const void* const inputs[] = {accumulator, input};
  Reduce(accumulator, inputs, count, dtype, op);
}

}  // namespace pto::kernels

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/block.h"
#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/stream.h"
#include "kernels/strided.h"
#include "kernels/tile.h"

namespace pto::kernels {
namespace {

constexpr pto_argument_info kBinaryArguments[] = {{"a", PTO_INPUT, kArithmeticTypes},
                                                  {"b", PTO_INPUT, kArithmeticTypes},
                                                  {"out", PTO_OUTPUT, kArithmeticTypes}};
constexpr pto_argument_info kScaleArguments[] = {{"in", PTO_INPUT, kArithmeticTypes},
                                                 {"out", PTO_OUTPUT, kArithmeticTypes}};
constexpr pto_argument_info kAxpyArguments[] = {{"x", PTO_INPUT, kArithmeticTypes},
                                                {"y", PTO_INOUT, kArithmeticTypes}};
// An element of out depends only on the input elements at the same index, so out may be any of the
// inputs.
constexpr pto_overlap_info kBinaryOverlaps[] = {
    {}, {}, {.same = PTO_ARGUMENT_BIT(0) | PTO_ARGUMENT_BIT(1), .any = 0}};
constexpr pto_overlap_info kUnaryOverlaps[] = {{}, {.same = PTO_ARGUMENT_BIT(0), .any = 0}};
constexpr pto_scalar_info kScaleScalars[] = {{"factor", PTO_FLOAT}};
constexpr pto_scalar_info kAxpyScalars[] = {{"alpha", PTO_FLOAT}};

// Sixteen-bit elements go through arrays of float of this length.
constexpr int64_t kTile = 256;

// One run of out = op(a, b).
template <typename T, typename Op>
void BinaryRun(const T* a, int64_t a_step, const T* b, int64_t b_step, T* out, int64_t out_step,
               int64_t count, Op op) {
  using E = Element<T>;
  if constexpr (sizeof(T) == 2) {
    float x[kTile];
    float y[kTile];
    for (int64_t at = 0; at < count; at += kTile) {
      const int64_t n = std::min(kTile, count - at);
      LoadTile(a + at * a_step, a_step, n, x);
      LoadTile(b + at * b_step, b_step, n, y);
      for (int64_t i = 0; i < n; ++i) x[i] = op(x[i], y[i]);
      StoreTile(x, n, out + at * out_step, out_step);
    }
  } else if (a_step == 1 && b_step == 1 && out_step == 1) {
    PTO_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) out[i] = E::Store(op(E::Load(a[i]), E::Load(b[i])));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      out[i * out_step] = E::Store(op(E::Load(a[i * a_step]), E::Load(b[i * b_step])));
    }
  }
}

// The block's share of out = op(a, b).
template <typename T, typename Op>
int32_t Binary(const pto_context* context, const pto_tensor& a, const pto_tensor& b,
               const pto_tensor& out, Op op) {
  const StridedRange<3> range({&a, &b, &out});
  const bool streamed = IsStreamed(out, {&a, &b});
  ForShare(context, range, BlockShare(context, range.size()),
           [&](const auto& offsets, const auto& strides, int64_t count, int64_t) {
             const T* x = static_cast<const T*>(a.data) + offsets[0];
             const T* y = static_cast<const T*>(b.data) + offsets[1];
             T* to = static_cast<T*>(out.data) + offsets[2];
             if (streamed && strides[2] == 1) {
               StreamRun(to, count, [&](int64_t at, int64_t n, T* part) {
                 BinaryRun(x + at * strides[0], strides[0], y + at * strides[1], strides[1], part,
                           1, n, op);
               });
             } else {
               BinaryRun(x, strides[0], y, strides[1], to, strides[2], count, op);
             }
           });
  return 0;
}

// One run of out = op(in).
template <typename T, typename Op>
void UnaryRun(const T* in, int64_t in_step, T* out, int64_t out_step, int64_t count, Op op) {
  using E = Element<T>;
  if constexpr (sizeof(T) == 2) {
    float x[kTile];
    for (int64_t at = 0; at < count; at += kTile) {
      const int64_t n = std::min(kTile, count - at);
      LoadTile(in + at * in_step, in_step, n, x);
      for (int64_t i = 0; i < n; ++i) x[i] = op(x[i]);
      StoreTile(x, n, out + at * out_step, out_step);
    }
  } else if (in_step == 1 && out_step == 1) {
    PTO_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) out[i] = E::Store(op(E::Load(in[i])));
  } else {
    for (int64_t i = 0; i < count; ++i) out[i * out_step] = E::Store(op(E::Load(in[i * in_step])));
  }
}

// The block's share of out = op(in).
template <typename T, typename Op>
int32_t Unary(const pto_context* context, const pto_tensor& in, const pto_tensor& out, Op op) {
  const StridedRange<2> range({&in, &out});
  const bool streamed = IsStreamed(out, {&in});
  ForShare(context, range, BlockShare(context, range.size()),
           [&](const auto& offsets, const auto& strides, int64_t count, int64_t) {
             const T* from = static_cast<const T*>(in.data) + offsets[0];
             T* to = static_cast<T*>(out.data) + offsets[1];
             if (streamed && strides[1] == 1) {
               StreamRun(to, count, [&](int64_t at, int64_t n, T* part) {
                 UnaryRun(from + at * strides[0], strides[0], part, 1, n, op);
               });
             } else {
               UnaryRun(from, strides[0], to, strides[1], count, op);
             }
           });
  return 0;
}

// A kernel of two inputs and an output.
template <typename Op>
int32_t BinaryKernel(const pto_context* context) {
  const pto_tensor* tensors = context->tensors;
  return WithElementType(context, tensors[0].dtype, [&](auto type) {
    return Binary<decltype(type)>(context, tensors[0], tensors[1], tensors[2], Op());
  });
}

struct Add {
  template <typename V>
  V operator()(V a, V b) const {
    return a + b;
  }
};

struct Subtract {
  template <typename V>
  V operator()(V a, V b) const {
    return a - b;
  }
};

struct Multiply {
  template <typename V>
  V operator()(V a, V b) const {
    return a * b;
  }
};

int32_t Scale(const pto_context* context) {
  const pto_tensor* tensors = context->tensors;
  return WithElementType(context, tensors[0].dtype, [&](auto type) {
    using T = decltype(type);
    using Math = typename Element<T>::Math;
    const Math factor = Element<T>::Scalar(context->scalars[0].f64);
    return Unary<T>(context, tensors[0], tensors[1], [factor](Math v) { return v * factor; });
  });
}

int32_t Axpy(const pto_context* context) {
  const pto_tensor* tensors = context->tensors;
  return WithElementType(context, tensors[0].dtype, [&](auto type) {
    using T = decltype(type);
    using Math = typename Element<T>::Math;
    const Math alpha = Element<T>::Scalar(context->scalars[0].f64);
    return Binary<T>(context, tensors[0], tensors[1], tensors[1],
                     [alpha](Math x, Math y) { return y + alpha * x; });
  });
}

int32_t CheckAdd(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  return Check{"add", kBinaryArguments, tensors, count, message, size}.AllAlike();
}

int32_t CheckSub(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  return Check{"sub", kBinaryArguments, tensors, count, message, size}.AllAlike();
}

int32_t CheckMul(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  return Check{"mul", kBinaryArguments, tensors, count, message, size}.AllAlike();
}

int32_t CheckScale(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  return Check{"scale", kScaleArguments, tensors, count, message, size}.AllAlike();
}

int32_t CheckAxpy(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  return Check{"axpy", kAxpyArguments, tensors, count, message, size}.AllAlike();
}

constexpr pto_kernel_info BinaryInfo(const char* name, const char* description,
                                     pto_kernel_function function, pto_check_function check) {
  return {
      .struct_size = sizeof(pto_kernel_info),
      .name = name,
      .description = description,
      .function = function,
      .check = check,
      .default_core = PTO_AIV,
      .arguments = kBinaryArguments,
      .argument_count = std::size(kBinaryArguments),
      .scalars = nullptr,
      .scalar_count = 0,
      .requires_sync_start = 0,
      .flags = 0,
      .control = PTO_CONTROL_NONE,
      .overlaps = kBinaryOverlaps,
      .cost = CostOfAll,
  };
}

constexpr pto_kernel_info kKernels[] = {
    BinaryInfo("add", "out = a + b, element by element; integers wrap.", BinaryKernel<Add>,
               CheckAdd),
    BinaryInfo("sub", "out = a - b, element by element; integers wrap.", BinaryKernel<Subtract>,
               CheckSub),
    BinaryInfo("mul", "out = a * b, element by element; integers wrap.", BinaryKernel<Multiply>,
               CheckMul),
    {
        .struct_size = sizeof(pto_kernel_info),
        .name = "scale",
        .description = "out = factor * in; integers drop the factor's fraction, and wrap.",
        .function = Scale,
        .check = CheckScale,
        .default_core = PTO_AIV,
        .arguments = kScaleArguments,
        .argument_count = std::size(kScaleArguments),
        .scalars = kScaleScalars,
        .scalar_count = std::size(kScaleScalars),
        .requires_sync_start = 0,
        .flags = 0,
        .control = PTO_CONTROL_NONE,
        .overlaps = kUnaryOverlaps,
        .cost = CostOfAll,
    },
    {
        .struct_size = sizeof(pto_kernel_info),
        .name = "axpy",
        .description = "y = y + alpha * x; integers drop alpha's fraction, and wrap.",
        .function = Axpy,
        .check = CheckAxpy,
        .default_core = PTO_AIV,
        .arguments = kAxpyArguments,
        .argument_count = std::size(kAxpyArguments),
        .scalars = kAxpyScalars,
        .scalar_count = std::size(kAxpyScalars),
        .requires_sync_start = 0,
        .flags = 0,
        .control = PTO_CONTROL_NONE,
        .overlaps = kUnaryOverlaps,
        .cost = CostOfAll,
    },
};

}  // namespace

absl::Span<const pto_kernel_info> ElementwiseKernels() { return kKernels; }

}  // namespace pto::kernels

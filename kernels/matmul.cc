#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/block.h"
#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/gemm.h"
#include "kernels/strided.h"
#include "kernels/tile.h"
#include "kernels/work_meter.h"

namespace pto::kernels {
namespace {

constexpr pto_argument_info kArguments[] = {{"a", PTO_INPUT, kArithmeticTypes},
                                            {"b", PTO_INPUT, kArithmeticTypes},
                                            {"out", PTO_OUTPUT, kArithmeticTypes}};

template <typename T>
Matrix<T> AsMatrix(const pto_tensor& tensor) {
  return {static_cast<T*>(tensor.data), tensor.shape[0], tensor.shape[1], tensor.strides[0],
          tensor.strides[1]};
}

template <typename T>
Matrix<T> Rows(const Matrix<T>& matrix, int64_t begin, int64_t end) {
  return matrix.Block(begin, 0, end - begin, matrix.columns);
}

template <typename T>
void SetZero(const Matrix<T>& matrix, WorkMeter& meter) {
  constexpr int64_t kPart = 1024;
  for (int64_t i = 0; i < matrix.rows; ++i) {
    for (int64_t first = 0; first < matrix.columns; first += kPart) {
      if (!meter.Spend(kPart * WorkMeter::kFar)) return;
      const int64_t last = std::min(first + kPart, matrix.columns);
      for (int64_t j = first; j < last; ++j) {
        matrix.data[i * matrix.row_stride + j * matrix.column_stride] = T{};
      }
    }
  }
}

// Multiplies directly in memory, some rows at a time, so that these stay in the caches. Returns
// false if the meter has stopped it or there is no memory to work in.
bool MultiplyInPlace(const Matrix<const float>& a, const Matrix<const float>& b,
                     const Matrix<float>& out, WorkMeter& meter) {
  // Enough rows to be worth packing b again.
  constexpr int64_t kProducts = int64_t{1} << 29;
  const int64_t step = std::max<int64_t>(kProducts / (b.rows * b.columns), 256);
  for (int64_t row = 0; row < out.rows; row += step) {
    const int64_t end = std::min(row + step, out.rows);
    if (!GemmF32(Rows(a, row, end), b, Rows(out, row, end), /*accumulate=*/false, meter)) {
      return false;
    }
  }
  return true;
}

// For narrow types, which are summed in float: converts tiles of a and b to float, and tiles of the
// sums back.
class TiledMultiply {
 public:
  static constexpr int64_t kRows = 256;
  static constexpr int64_t kColumns = 512;
  static constexpr int64_t kInner = 512;
  static_assert(kInner % kGemmStretch == 0, "or the order of summation would be another one");

  // Returns false if there is no memory.
  bool Allocate(int64_t rows, int64_t columns, int64_t inner) {
    rows = std::min(rows, kRows);
    columns = std::min(columns, kColumns);
    inner = std::min(inner, kInner);
    a_.reset(new (std::nothrow) float[rows * inner]);
    b_.reset(new (std::nothrow) float[inner * columns]);
    out_.reset(new (std::nothrow) float[rows * columns]);
    return a_ != nullptr && b_ != nullptr && out_ != nullptr;
  }

  // Returns false if the meter has stopped it or there is no memory.
  template <typename T>
  bool Run(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& out,
           WorkMeter& meter) {
    for (int64_t row = 0; row < out.rows; row += kRows) {
      const int64_t rows = std::min(kRows, out.rows - row);
      for (int64_t column = 0; column < out.columns; column += kColumns) {
        const int64_t columns = std::min(kColumns, out.columns - column);
        const Matrix<float> sums{out_.get(), rows, columns, columns, 1};
        for (int64_t k = 0; k < a.columns; k += kInner) {
          const int64_t inner = std::min(kInner, a.columns - k);
          Matrix<const float> left;
          Matrix<const float> right;
          if (!Load(a.Block(row, k, rows, inner), a_.get(), meter, &left) ||
              !Load(b.Block(k, column, inner, columns), b_.get(), meter, &right) ||
              !GemmF32(left, right, sums, /*accumulate=*/k > 0, meter)) {
            return false;
          }
        }
        if (!Store(sums, out.Block(row, column, rows, columns), meter)) return false;
      }
    }
    return true;
  }

 private:
  // The work of converting a row or column, whose elements may be far from each other.
  static int64_t LineWork(int64_t elements) { return 4 * elements; }

  // Copies to a tile with unit stride in the same dimension as the source, so that both are
  // accessed in order. Returns false if the meter has stopped it.
  template <typename T>
  static bool Load(const Matrix<const T>& from, float* to, WorkMeter& meter,
                   Matrix<const float>* tile) {
    if (from.row_stride < from.column_stride) {
      for (int64_t j = 0; j < from.columns; ++j) {
        if (!meter.Spend(LineWork(from.rows))) return false;
        LoadTile(from.data + j * from.column_stride, from.row_stride, from.rows,
                 to + j * from.rows);
      }
      *tile = {to, from.rows, from.columns, 1, from.rows};
      return true;
    }
    for (int64_t i = 0; i < from.rows; ++i) {
      if (!meter.Spend(LineWork(from.columns))) return false;
      LoadTile(from.data + i * from.row_stride, from.column_stride, from.columns,
               to + i * from.columns);
    }
    *tile = {to, from.rows, from.columns, from.columns, 1};
    return true;
  }

  template <typename T>
  static bool Store(const Matrix<float>& from, const Matrix<T>& to, WorkMeter& meter) {
    for (int64_t i = 0; i < from.rows; ++i) {
      if (!meter.Spend(LineWork(from.columns))) return false;
      StoreTile(from.data + i * from.row_stride, from.columns, to.data + i * to.row_stride,
                to.column_stride);
    }
    return true;
  }

  std::unique_ptr<float[]> a_;
  std::unique_ptr<float[]> b_;
  std::unique_ptr<float[]> out_;
};

// Row by row, a range of columns at a time, modulo 2^32 or 2^64.
template <typename T>
void MultiplyIntegers(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& out,
                      WorkMeter& meter) {
  using E = Element<T>;
  using Math = typename E::Math;
  constexpr int64_t kStretch = 256;
  constexpr int64_t kInner = 64;
  Math sums[kStretch];
  for (int64_t i = 0; i < out.rows; ++i) {
    for (int64_t column = 0; column < out.columns; column += kStretch) {
      const int64_t count = std::min(kStretch, out.columns - column);
      std::fill_n(sums, count, Math{0});
      for (int64_t first = 0; first < a.columns; first += kInner) {
        const int64_t last = std::min(first + kInner, a.columns);
        if (!meter.Spend((last - first) * (WorkMeter::kFar + count))) return;
        for (int64_t k = first; k < last; ++k) {
          const Math factor = E::Load(a.data[i * a.row_stride + k * a.column_stride]);
          const T* from = b.data + k * b.row_stride + column * b.column_stride;
          if (b.column_stride == 1) {
            for (int64_t j = 0; j < count; ++j) sums[j] += factor * E::Load(from[j]);
          } else {
            for (int64_t j = 0; j < count; ++j) {
              sums[j] += factor * E::Load(from[j * b.column_stride]);
            }
          }
        }
      }
      T* to = out.data + i * out.row_stride + column * out.column_stride;
      for (int64_t j = 0; j < count; ++j) to[j * out.column_stride] = E::Store(sums[j]);
    }
  }
}

template <typename T>
int32_t MultiplyRows(const pto_context* context, const Matrix<const T>& a, const Matrix<const T>& b,
                     const Matrix<T>& out, WorkMeter& meter) {
  bool done = true;
  if constexpr (std::is_integral_v<T>) {
    MultiplyIntegers(a, b, out, meter);
  } else if constexpr (std::is_same_v<T, float>) {
    done = MultiplyInPlace(a, b, out, meter);
  } else {
    TiledMultiply tiled;
    done = tiled.Allocate(out.rows, out.columns, a.columns) && tiled.Run(a, b, out, meter);
  }
  return done || meter.stopped() ? 0 : Fail(context, "matmul: no memory for tiles");
}

int32_t Matmul(const pto_context* context) {
  const pto_tensor* tensors = context->tensors;
  return WithElementType(context, tensors[0].dtype, [&](auto type) {
    using T = decltype(type);
    const Matrix<const T> a = AsMatrix<const T>(tensors[0]);
    const Matrix<const T> b = AsMatrix<const T>(tensors[1]);
    const Matrix<T> out = AsMatrix<T>(tensors[2]);
    const Share share = BlockShare(context, out.rows);
    if (share.begin == share.end || out.columns == 0 || Cancelled(context)) return 0;
    const Matrix<T> rows = Rows(out, share.begin, share.end);
    WorkMeter meter(context);
    if (a.columns == 0) {  // a and b have no memory
      SetZero(rows, meter);
      return 0;
    }
    return MultiplyRows(context, Rows(a, share.begin, share.end), b, rows, meter);
  });
}

double CostOfMatmul(const pto_tensor* tensors, uint32_t) {
  return CountOf(tensors[2]) * static_cast<double>(tensors[0].shape[1]) * kNsPerProduct;
}

int32_t CheckMatmul(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  const Check check{"matmul", kArguments, tensors, count, message, size};
  if (int32_t refused = check.Count()) return refused;
  if (int32_t refused = check.SameDtype(3)) return refused;
  for (uint32_t i = 0; i < 3; ++i) {
    if (tensors[i].ndim == 2) continue;
    return check.Refuse(absl::StrCat(check.Describe(i), ", expected 2 dimensions"));
  }
  const pto_tensor& a = tensors[0];
  const pto_tensor& b = tensors[1];
  const pto_tensor& out = tensors[2];
  if (a.shape[1] != b.shape[0]) {
    return check.Refuse(
        absl::StrCat("inner dimensions differ: ", check.Describe(0), ", ", check.Describe(1)));
  }
  if (out.shape[0] != a.shape[0] || out.shape[1] != b.shape[1]) {
    return check.Refuse(absl::StrCat(check.Describe(2), ", expected [", a.shape[0], ",", b.shape[1],
                                     "]: ", check.Describe(0), ", ", check.Describe(1)));
  }
  return 0;
}

constexpr pto_kernel_info kKernels[] = {{
    .struct_size = sizeof(pto_kernel_info),
    .name = "matmul",
    .description =
        "out[M,N] = a[M,K] * b[K,N]; F16 and BF16 are summed in F32, integers wrap; "
        "floats are summed by increasing k in stretches of 256 whose sums are then added, "
        "whatever the sizes and strides are; blocks share the rows of out.",
    .function = Matmul,
    .check = CheckMatmul,
    .default_core = PTO_AIC,
    .arguments = kArguments,
    .argument_count = std::size(kArguments),
    .scalars = nullptr,
    .scalar_count = 0,
    .requires_sync_start = 0,
    .flags = 0,
    .control = PTO_CONTROL_NONE,
    .cost = CostOfMatmul,
}};

}  // namespace

absl::Span<const pto_kernel_info> MatmulKernels() { return kKernels; }

}  // namespace pto::kernels

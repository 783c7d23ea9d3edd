#pragma once

#include <cstdint>

#include "kernels/gemm_tiles.h"

namespace pto::kernels {

// A matrix of T in memory; strides in elements.
template <typename T>
struct Matrix {
  T* data;
  int64_t rows;
  int64_t columns;
  int64_t row_stride;
  int64_t column_stride;

  Matrix Block(int64_t row, int64_t column, int64_t row_count, int64_t column_count) const {
    return {data + row * row_stride + column * column_stride, row_count, column_count, row_stride,
            column_stride};
  }
  Matrix Transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};

// Products are added up in stretches of this length.
inline constexpr int64_t kGemmStretch = 256;

// c = a * b, or c += a * b when `accumulate`; none of them is empty. Takes any strides, also
// those of inputs that overlap themselves. Any number of threads may call it at a time. Returns
// false when there is no memory to work in; then c is of no use.
//
// The order of summation is fixed. Element [i,j] takes stretches of kGemmStretch products, the
// last one may be shorter. The sum of a stretch begins with 0 and takes a[i,k] * b[k,j] by rising
// k, each with one fused multiply-add. Then the sums of the stretches are added, the first one
// first; with `accumulate`, c comes before all of them. So the bits of an element depend on row i
// of a and column j of b, and on nothing else: not on the sizes, its place, or the strides. On a
// processor without fused multiply-add, each product is rounded before it is added.
bool GemmF32(const Matrix<const float>& a, const Matrix<const float>& b, const Matrix<float>& c,
             bool accumulate);

// The same with these tiles, for tests.
bool GemmF32(const TileSet& tiles, const Matrix<const float>& a, const Matrix<const float>& b,
             const Matrix<float>& c, bool accumulate);

}  // namespace pto::kernels

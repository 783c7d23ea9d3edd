#pragma once

#include <cstdint>

#include "kernels/gemm_tiles.h"
#include "kernels/work_meter.h"

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

// c = a * b, or c += a * b if `accumulate`; no matrix is empty. Any strides are allowed, including
// inputs that overlap themselves. Thread-safe. Counts its work with the meter. Returns false if the
// meter has stopped it, or if there is no memory to work in; c is then undefined.
//
// The order of summation is fixed. Element [i,j] is the sum of stretches of kGemmStretch products;
// the last stretch may be shorter. The sum of a stretch starts with 0 and adds a[i,k] * b[k,j] by
// increasing k, each with one fused multiply-add. Then the sums of the stretches are added in
// order; with `accumulate`, c comes first. So the bits of an element depend only on row i of a and
// column j of b: not on the sizes, its position, or the strides. On a processor without fused
// multiply-add, each product is rounded before it is added.
bool GemmF32(const Matrix<const float>& a, const Matrix<const float>& b, const Matrix<float>& c,
             bool accumulate, WorkMeter& meter);

// The same with these tiles, for tests.
bool GemmF32(const TileSet& tiles, const Matrix<const float>& a, const Matrix<const float>& b,
             const Matrix<float>& c, bool accumulate, WorkMeter& meter);

}  // namespace pto::kernels

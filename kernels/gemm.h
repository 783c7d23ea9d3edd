#pragma once

#include <cstdint>

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
};

// c = a * b, or c += a * b when `accumulate`; none of them is empty. Takes any strides, also
// those of inputs that overlap themselves. Any number of threads may call it at a time.
void GemmF32(const Matrix<const float>& a, const Matrix<const float>& b, const Matrix<float>& c,
             bool accumulate);

}  // namespace pto::kernels

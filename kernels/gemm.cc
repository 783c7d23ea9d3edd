#include "kernels/gemm.h"

#include <blis-serial/blis.h>

namespace pto::kernels {
namespace {

struct Strides {
  int64_t row;
  int64_t column;
};

// The stride of a dimension of 1 is never used, but BLIS ends the program over one that it
// finds inconsistent. So it gets the one that a matrix without gaps would have.
Strides Canonical(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  if (rows == 1 && columns == 1) return {1, 1};
  if (rows == 1) return {columns * column_stride, column_stride};
  if (columns == 1) return {row_stride, rows * row_stride};
  return {row_stride, column_stride};
}

}  // namespace

bool GemmAccepts(const Matrix<const float>& m) {
  if (m.rows <= 1 || m.columns <= 1) return true;
  return m.row_stride >= m.columns * m.column_stride || m.column_stride >= m.rows * m.row_stride;
}

void GemmF32(const Matrix<const float>& a, const Matrix<const float>& b, const Matrix<float>& c,
             bool accumulate) {
  float one = 1.0f;
  float beta = accumulate ? 1.0f : 0.0f;
  const Strides of_a = Canonical(a.rows, a.columns, a.row_stride, a.column_stride);
  const Strides of_b = Canonical(b.rows, b.columns, b.row_stride, b.column_stride);
  const Strides of_c = Canonical(c.rows, c.columns, c.row_stride, c.column_stride);
  // BLIS only reads a and b; its C interface lacks the const.
  bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, c.rows, c.columns, a.columns, &one,
            const_cast<float*>(a.data), of_a.row, of_a.column, const_cast<float*>(b.data), of_b.row,
            of_b.column, &beta, c.data, of_c.row, of_c.column);
}

}  // namespace pto::kernels

#include "kernels/gemm.h"

#include <blis-serial/blis.h>

namespace pto::kernels {

void GemmF32(const Matrix<const float>& a, const Matrix<const float>& b, const Matrix<float>& c,
             bool accumulate) {
  float one = 1.0f;
  float beta = accumulate ? 1.0f : 0.0f;
  // Unlike the interface of Fortran, BLIS's own takes both strides of each matrix. It lacks the
  // const, but only reads a and b.
  bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, c.rows, c.columns, a.columns, &one,
            const_cast<float*>(a.data), a.row_stride, a.column_stride, const_cast<float*>(b.data),
            b.row_stride, b.column_stride, &beta, c.data, c.row_stride, c.column_stride);
}

}  // namespace pto::kernels

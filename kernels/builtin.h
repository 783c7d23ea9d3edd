#pragma once

#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

// The built-in kernels by family. The infos live as long as the program.
namespace pto::kernels {

absl::Span<const pto_kernel_info> ControlKernels();      // join, notify, wait, …, copy_async
absl::Span<const pto_kernel_info> CollectiveKernels();   // all_reduce, broadcast, …, barrier
absl::Span<const pto_kernel_info> CopyKernels();         // copy
absl::Span<const pto_kernel_info> CompareKernels();      // compare
absl::Span<const pto_kernel_info> ElementwiseKernels();  // add, sub, mul, scale, axpy
absl::Span<const pto_kernel_info> FillKernels();         // fill, iota
absl::Span<const pto_kernel_info> MatmulKernels();       // matmul
absl::Span<const pto_kernel_info> ReduceKernels();       // reduce_sum
absl::Span<const pto_kernel_info> RowKernels();          // take_rows, scale_rows, sum_rows
absl::Span<const pto_kernel_info> TestingKernels();      // noop, spin, fail

}  // namespace pto::kernels

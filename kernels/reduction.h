#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

// Element-wise reduction of dense arrays, always from the first input to the last. So equal inputs
// give equal bits on every machine and for every split of the arrays.
namespace pto::kernels {

// Numbered as in the API and in comm/collectives.h.
enum class ReduceOp : uint32_t { kSum = 1, kProd = 2, kMax = 3, kMin = 4 };

// Whether arrays of this pto_dtype can be reduced: all but PTO_BOOL.
bool IsReducible(uint32_t dtype);
bool IsReduceOp(uint32_t op);

// out[i] = inputs[0][i] op inputs[1][i] op …, for at least one input. `out` may be one of the
// inputs; otherwise they must not overlap. All are aligned to their elements. F16 and BF16 are
// reduced as F32 and rounded once.
void Reduce(void* out, absl::Span<const void* const> inputs, size_t count, uint32_t dtype,
            ReduceOp op);

// accumulator[i] = accumulator[i] op input[i]
void ReduceInto(void* accumulator, const void* input, size_t count, uint32_t dtype, ReduceOp op);

}  // namespace pto::kernels

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pto/v1/tensor.pb.h"

namespace pto {

// Size of a contiguous tensor in bytes. INVALID_ARGUMENT / TENSOR_INVALID if a dimension is not
// positive or if the size overflows.
absl::StatusOr<uint64_t> TensorBytes(absl::Span<const int64_t> shape, uint64_t element_bytes);

// Size of one element in bytes; 0 for an unknown type.
uint64_t ElementBytes(v1::DType dtype);

}  // namespace pto

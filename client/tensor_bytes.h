#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pto/v1/tensor.pb.h"

namespace pto {

// Bytes of a contiguous tensor. INVALID_ARGUMENT / TENSOR_INVALID for a negative size, for no
// elements, or when the product does not fit.
absl::StatusOr<uint64_t> TensorBytes(absl::Span<const int64_t> shape, uint64_t element_bytes);

// Bytes of one element; 0 for a type that is not known.
uint64_t ElementBytes(v1::DType dtype);

}  // namespace pto

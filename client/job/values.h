#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "pto/v1/tensor.pb.h"

namespace pto::job {

// Numbers of one type and shape, as bytes in the order and form of a chip's memory.
struct Array {
  pto::v1::DType dtype = pto::v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::string bytes;

  int64_t size() const;
  // Element `index`, in order of memory. Integers beyond 2^53 are rounded.
  double Get(int64_t index) const;
  // Rounds to the nearest value of the type; integers saturate, and NaN becomes 0 in them.
  void Set(int64_t index, double value);
};

// Zeros. `shape` must have passed ElementCount.
Array MakeArray(pto::v1::DType dtype, absl::Span<const int64_t> shape);

// Bytes of one element; 0 for an unspecified type.
size_t DTypeBytes(pto::v1::DType dtype);

// Whether the type holds integers (BOOL counts).
bool IsInteger(pto::v1::DType dtype);

// Whether `value` can be stored in the type without saturating and, for integers, without
// losing a fraction.
bool Fits(pto::v1::DType dtype, double value);

// Product of the dimensions; 1 for none. INVALID_ARGUMENT for a negative one, or when the
// product does not fit.
absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> shape);

// `4x256`; `scalar` for no dimensions.
std::string ShapeText(absl::Span<const int64_t> shape);

// Reads and stores one element at `memory`.
double LoadElement(pto::v1::DType dtype, const char* memory);
void StoreElement(pto::v1::DType dtype, double value, char* memory);

}  // namespace pto::job

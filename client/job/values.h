#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "pto/v1/tensor.pb.h"

namespace pto::job {

// An array of one element type and shape. The bytes have the layout of chip memory.
struct Array {
  pto::v1::DType dtype = pto::v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::string bytes;

  int64_t size() const;
  // Element `index`, in memory order. Integers above 2^53 are rounded.
  double Get(int64_t index) const;
  // Stores the nearest value of the type. Integers saturate, and NaN becomes 0.
  void Set(int64_t index, double value);
};

// Creates an array of zeros. `shape` must have passed ElementCount.
Array MakeArray(pto::v1::DType dtype, absl::Span<const int64_t> shape);

// Size of one element in bytes; 0 for an unspecified type.
size_t DTypeBytes(pto::v1::DType dtype);

// Whether the type is an integer type; BOOL is one.
bool IsInteger(pto::v1::DType dtype);

// Whether the type can store `value` without saturation and, for integers, without losing a
// fraction.
bool Fits(pto::v1::DType dtype, double value);

// Product of the dimensions; 1 if there are none. INVALID_ARGUMENT for a negative dimension or on
// overflow.
absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> shape);

// Returns, for example, `4x256`, or `scalar` if there are no dimensions.
std::string ShapeText(absl::Span<const int64_t> shape);

// Reads and stores one element at `memory`.
double LoadElement(pto::v1::DType dtype, const char* memory);
void StoreElement(pto::v1::DType dtype, double value, char* memory);

}  // namespace pto::job

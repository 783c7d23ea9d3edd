#include "client/job/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/error.h"

namespace pto::job {
namespace {

using pto::v1::DType;

// A 16-bit floating-point format.
struct SmallFormat {
  int mantissa_bits;
  int bias;
};
constexpr SmallFormat kHalf{10, 15};
constexpr SmallFormat kBrain{7, 127};

// Rounds once, to nearest even, directly from the double.
uint16_t Encode(SmallFormat format, double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const auto infinity =
      static_cast<uint16_t>(0x7fff >> format.mantissa_bits << format.mantissa_bits);
  if (std::isnan(value)) return sign | infinity | (1 << (format.mantissa_bits - 1));
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  // Subnormal values share the exponent of the smallest normal value.
  const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias);
  const double steps = std::nearbyint(std::scalbn(magnitude, format.mantissa_bits - exponent));
  // A carry out of the mantissa increments the exponent, up to infinity.
  const double bits =
      steps + std::scalbn(static_cast<double>(exponent + format.bias - 1), format.mantissa_bits);
  return sign | (bits >= infinity ? infinity : static_cast<uint16_t>(bits));
}

double Decode(SmallFormat format, uint16_t bits) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent = (bits & 0x7fff) >> format.mantissa_bits;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0x7fff >> format.mantissa_bits) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) {
    return sign * std::scalbn(mantissa, 1 - format.bias - format.mantissa_bits);
  }
  return sign * std::scalbn(mantissa + (1 << format.mantissa_bits),
                            exponent - format.bias - format.mantissa_bits);
}

template <typename T>
double Load(const char* memory) {
  T value;
  std::memcpy(&value, memory, sizeof value);
  return static_cast<double>(value);
}

template <typename T>
void Store(char* memory, T value) {
  std::memcpy(memory, &value, sizeof value);
}

// One more than the largest T. A double represents it exactly for every T.
template <typename T>
double Bound() {
  return std::scalbn(1.0, std::numeric_limits<T>::digits);
}

template <typename T>
T ToInteger(double value) {
  if (std::isnan(value)) return 0;
  value = std::nearbyint(value);
  if (value >= Bound<T>()) return std::numeric_limits<T>::max();
  if (value < static_cast<double>(std::numeric_limits<T>::lowest())) {
    return std::numeric_limits<T>::lowest();
  }
  return static_cast<T>(value);
}

template <typename T>
bool FitsInteger(double value) {
  return value == std::nearbyint(value) && value < Bound<T>() &&
         value >= static_cast<double>(std::numeric_limits<T>::lowest());
}

float ToFloat(double value) {
  // Converting a finite double beyond the range of float is undefined.
  if (std::isfinite(value) && std::fabs(value) > std::numeric_limits<float>::max()) {
    // Values up to half a step above the largest float round down to it.
    const double limit = std::scalbn(2.0 - std::scalbn(1.0, -24), 127);
    const float greatest = std::fabs(value) < limit ? std::numeric_limits<float>::max()
                                                    : std::numeric_limits<float>::infinity();
    return std::copysign(greatest, static_cast<float>(std::signbit(value) ? -1 : 1));
  }
  return static_cast<float>(value);
}

}  // namespace

int64_t Array::size() const {
  const size_t each = DTypeBytes(dtype);
  return each == 0 ? 0 : static_cast<int64_t>(bytes.size() / each);
}

double Array::Get(int64_t index) const {
  return LoadElement(dtype, bytes.data() + index * DTypeBytes(dtype));
}

void Array::Set(int64_t index, double value) {
  StoreElement(dtype, value, bytes.data() + index * DTypeBytes(dtype));
}

Array MakeArray(DType dtype, absl::Span<const int64_t> shape) {
  Array array;
  array.dtype = dtype;
  array.shape.assign(shape.begin(), shape.end());
  array.bytes.assign(ElementCount(shape).value() * DTypeBytes(dtype), '\0');
  return array;
}

size_t DTypeBytes(DType dtype) {
  switch (dtype) {
    case pto::v1::I8:
    case pto::v1::U8:
    case pto::v1::BOOL:
      return 1;
    case pto::v1::F16:
    case pto::v1::BF16:
    case pto::v1::I16:
    case pto::v1::U16:
      return 2;
    case pto::v1::F32:
    case pto::v1::I32:
    case pto::v1::U32:
      return 4;
    case pto::v1::F64:
    case pto::v1::I64:
    case pto::v1::U64:
      return 8;
    default:
      return 0;
  }
}

bool IsInteger(DType dtype) { return dtype >= pto::v1::I8 && dtype <= pto::v1::BOOL; }

bool Fits(DType dtype, double value) {
  switch (dtype) {
    case pto::v1::I8:
      return FitsInteger<int8_t>(value);
    case pto::v1::I16:
      return FitsInteger<int16_t>(value);
    case pto::v1::I32:
      return FitsInteger<int32_t>(value);
    case pto::v1::I64:
      return FitsInteger<int64_t>(value);
    case pto::v1::U8:
      return FitsInteger<uint8_t>(value);
    case pto::v1::U16:
      return FitsInteger<uint16_t>(value);
    case pto::v1::U32:
      return FitsInteger<uint32_t>(value);
    case pto::v1::U64:
      return FitsInteger<uint64_t>(value);
    case pto::v1::BOOL:
      return value == 0 || value == 1;
    default: {
      char memory[8] = {};
      StoreElement(dtype, value, memory);
      return !std::isfinite(value) || std::isfinite(LoadElement(dtype, memory));
    }
  }
}

absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    // The largest element has 8 bytes, so this also limits the size in bytes.
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count) || count > (int64_t{1} << 59)) {
      return Error(reason::kFieldInvalid,
                   absl::StrCat("the shape ", ShapeText(shape),
                                dim < 0 ? " has a negative dimension" : " is too large"));
    }
  }
  return count;
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return shape.empty() ? "scalar" : absl::StrJoin(shape, "x");
}

double LoadElement(DType dtype, const char* memory) {
  switch (dtype) {
    case pto::v1::F32:
      return Load<float>(memory);
    case pto::v1::F64:
      return Load<double>(memory);
    case pto::v1::F16:
    case pto::v1::BF16: {
      uint16_t bits;
      std::memcpy(&bits, memory, sizeof bits);
      return Decode(dtype == pto::v1::F16 ? kHalf : kBrain, bits);
    }
    case pto::v1::I8:
      return Load<int8_t>(memory);
    case pto::v1::I16:
      return Load<int16_t>(memory);
    case pto::v1::I32:
      return Load<int32_t>(memory);
    case pto::v1::I64:
      return Load<int64_t>(memory);
    case pto::v1::U16:
      return Load<uint16_t>(memory);
    case pto::v1::U32:
      return Load<uint32_t>(memory);
    case pto::v1::U64:
      return Load<uint64_t>(memory);
    case pto::v1::U8:
    case pto::v1::BOOL:
      return Load<uint8_t>(memory);
    default:
      return 0;
  }
}

void StoreElement(DType dtype, double value, char* memory) {
  switch (dtype) {
    case pto::v1::F32:
      return Store(memory, ToFloat(value));
    case pto::v1::F64:
      return Store(memory, value);
    case pto::v1::F16:
      return Store(memory, Encode(kHalf, value));
    case pto::v1::BF16:
      return Store(memory, Encode(kBrain, value));
    case pto::v1::I8:
      return Store(memory, ToInteger<int8_t>(value));
    case pto::v1::I16:
      return Store(memory, ToInteger<int16_t>(value));
    case pto::v1::I32:
      return Store(memory, ToInteger<int32_t>(value));
    case pto::v1::I64:
      return Store(memory, ToInteger<int64_t>(value));
    case pto::v1::U8:
      return Store(memory, ToInteger<uint8_t>(value));
    case pto::v1::U16:
      return Store(memory, ToInteger<uint16_t>(value));
    case pto::v1::U32:
      return Store(memory, ToInteger<uint32_t>(value));
    case pto::v1::U64:
      return Store(memory, ToInteger<uint64_t>(value));
    case pto::v1::BOOL:
      return Store(memory, static_cast<uint8_t>(value != 0));
    default:
      return;
  }
}

}  // namespace pto::job

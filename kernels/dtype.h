#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>

#include "kernels/pto_kernel.h"

// The element types of the kernel ABI as C++ types, and the arithmetic on one element.
namespace pto::kernels {

// IEEE 754 binary16.
struct F16 {
  uint16_t bits;
};

// The upper half of a binary32.
struct BF16 {
  uint16_t bits;
};

// The size of an element in bytes; 0 if `dtype` is not a type.
constexpr size_t DtypeSize(uint32_t dtype) {
  switch (dtype) {
    case PTO_I8:
    case PTO_U8:
    case PTO_BOOL:
      return 1;
    case PTO_F16:
    case PTO_BF16:
    case PTO_I16:
    case PTO_U16:
      return 2;
    case PTO_F32:
    case PTO_I32:
    case PTO_U32:
      return 4;
    case PTO_F64:
    case PTO_I64:
    case PTO_U64:
      return 8;
    default:
      return 0;
  }
}

// The API's name, for example "F32"; "?" if `dtype` is not a type.
constexpr const char* DtypeName(uint32_t dtype) {
  constexpr const char* kNames[] = {"?",   "F32", "F16", "BF16", "F64", "I8",  "I16",
                                    "I32", "I64", "U8",  "U16",  "U32", "U64", "BOOL"};
  return dtype < std::size(kNames) ? kNames[dtype] : "?";
}

// Exact, but a signalling NaN becomes quiet, as in hardware.
inline float ToFloat(F16 value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  const uint32_t shifted = magnitude << 13;
  const uint32_t normal = shifted + (112u << 23);
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t special = shifted | 0x7f800000u | (magnitude > 0x7c00u ? 0x400000u : 0u);
  const uint32_t finite = magnitude < 0x400u ? subnormal : normal;
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00u ? special : finite));
}

// Rounds to nearest, ties to even.
inline F16 ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // From 2^-14 on: the mantissa loses 13 bits. A carry correctly moves into the exponent.
  const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  // Below: the last bit of a sum with 0.5 has weight 2^-24, like that of a subnormal binary16.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - (126u << 23);
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  uint32_t result = magnitude < (113u << 23) ? subnormal : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // 65520 and more
  result = magnitude > 0x7f800000u ? nan : result;
  return F16{static_cast<uint16_t>(sign | result)};
}

inline float ToFloat(BF16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

// Rounds to nearest, ties to even.
inline BF16 ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  return BF16{static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

// Rounds to odd: sets the last bit of an inexact result. Rounding the result again, to a type with
// at least two bits less, then equals rounding `value` directly.
inline float ToFloatOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// Drops the fraction; saturates; NaN becomes 0.
template <typename Int>
Int SaturatingCast(double value) {
  constexpr double kTop = static_cast<double>(uint64_t{1} << std::numeric_limits<Int>::digits);
  if (std::isnan(value)) return 0;
  if (value >= kTop) return std::numeric_limits<Int>::max();
  if (value < -kTop) return std::numeric_limits<Int>::min();
  return static_cast<Int>(value);
}

// Arithmetic on elements of type T. `Math` is the type of calculations: float for the floating
// types, unsigned for integers, where overflow wraps.
template <typename T>
struct Element;

template <>
struct Element<float> {
  static constexpr uint32_t kDtype = PTO_F32;
  using Math = float;
  static Math Load(float value) { return value; }
  static float Store(Math value) { return value; }
  static Math Scalar(double value) { return static_cast<float>(value); }
  static float FromDouble(double value) { return static_cast<float>(value); }
};

template <>
struct Element<F16> {
  static constexpr uint32_t kDtype = PTO_F16;
  using Math = float;
  static Math Load(F16 value) { return ToFloat(value); }
  static F16 Store(Math value) { return ToF16(value); }
  static Math Scalar(double value) { return static_cast<float>(value); }
  static F16 FromDouble(double value) { return ToF16(ToFloatOdd(value)); }
};

template <>
struct Element<BF16> {
  static constexpr uint32_t kDtype = PTO_BF16;
  using Math = float;
  static Math Load(BF16 value) { return ToFloat(value); }
  static BF16 Store(Math value) { return ToBF16(value); }
  static Math Scalar(double value) { return static_cast<float>(value); }
  static BF16 FromDouble(double value) { return ToBF16(ToFloatOdd(value)); }
};

template <>
struct Element<int32_t> {
  static constexpr uint32_t kDtype = PTO_I32;
  using Math = uint32_t;
  static Math Load(int32_t value) { return static_cast<uint32_t>(value); }
  static int32_t Store(Math value) { return static_cast<int32_t>(value); }
  static Math Scalar(double value) { return Load(SaturatingCast<int32_t>(value)); }
  static int32_t FromDouble(double value) { return SaturatingCast<int32_t>(value); }
};

template <>
struct Element<int64_t> {
  static constexpr uint32_t kDtype = PTO_I64;
  using Math = uint64_t;
  static Math Load(int64_t value) { return static_cast<uint64_t>(value); }
  static int64_t Store(Math value) { return static_cast<int64_t>(value); }
  static Math Scalar(double value) { return Load(SaturatingCast<int64_t>(value)); }
  static int64_t FromDouble(double value) { return SaturatingCast<int64_t>(value); }
};

// The types that the arithmetic kernels support.
inline constexpr uint32_t kArithmeticTypes = PTO_DTYPE_BIT(PTO_F32) | PTO_DTYPE_BIT(PTO_F16) |
                                             PTO_DTYPE_BIT(PTO_BF16) | PTO_DTYPE_BIT(PTO_I32) |
                                             PTO_DTYPE_BIT(PTO_I64);

}  // namespace pto::kernels

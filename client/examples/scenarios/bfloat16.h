#pragma once

#include <bit>
#include <cstdint>

namespace pto::scenarios {

// The upper half of a float, rounded to nearest, ties to even. Not for NaN.
inline uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline float FromBfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace pto::scenarios

#pragma once

#include <cstdint>

namespace pto::ascend {

// An address of a chip's memory together with the epoch of its allocation, as the engine's tensors
// carry it. A chip gives the same addresses again after a reset, so the address alone does not tell
// whether the memory is still there. The epoch is in bits that no address of a device uses; offsets
// within an allocation may be added. Epochs repeat after 32768 resets.
inline constexpr int kAddressBits = 48;
inline constexpr uint64_t kAddressMask = (uint64_t{1} << kAddressBits) - 1;
inline constexpr uint64_t kEpochMask = 0x7fff;

inline uint64_t WithEpoch(uint64_t address, uint64_t epoch) {
  return (address & kAddressMask) | (epoch & kEpochMask) << kAddressBits;
}
inline uint64_t WithoutEpoch(uint64_t marked) { return marked & kAddressMask; }
inline bool IsOfEpoch(uint64_t marked, uint64_t epoch) {
  return marked >> kAddressBits == (epoch & kEpochMask);
}

}  // namespace pto::ascend

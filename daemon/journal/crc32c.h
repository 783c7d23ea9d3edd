#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace pto::daemon {

// The checksum of iSCSI and ext4. Records are short, so a table is quick enough.
inline uint32_t Crc32c(absl::string_view data) {
  static constexpr std::array<uint32_t, 256> kTable = [] {
    constexpr uint32_t kPolynomial = 0x82f63b78;
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < table.size(); ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * kPolynomial);
      table[i] = value;
    }
    return table;
  }();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : data) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~crc;
}

}  // namespace pto::daemon

#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace pto::daemon {

// The checksum of iSCSI and ext4, eight bytes at a time. `crc` is that of the bytes before.
inline uint32_t Crc32c(absl::string_view data, uint32_t crc = 0) {
  static constexpr std::array<std::array<uint32_t, 256>, 8> kTables = [] {
    constexpr uint32_t kPolynomial = 0x82f63b78;
    std::array<std::array<uint32_t, 256>, 8> tables{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * kPolynomial);
      tables[0][i] = value;
    }
    for (size_t table = 1; table < tables.size(); ++table) {
      for (uint32_t i = 0; i < 256; ++i) {
        const uint32_t before = tables[table - 1][i];
        tables[table][i] = (before >> 8) ^ tables[0][before & 0xff];
      }
    }
    return tables;
  }();
  crc = ~crc;
  const char* next = data.data();
  size_t left = data.size();
  for (; left >= 8; left -= 8, next += 8) {
    uint32_t low = 0;
    uint32_t high = 0;
    std::memcpy(&low, next, 4);
    std::memcpy(&high, next + 4, 4);
    low ^= crc;
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][high & 0xff] ^ kTables[2][(high >> 8) & 0xff] ^
          kTables[1][(high >> 16) & 0xff] ^ kTables[0][high >> 24];
  }
  for (; left > 0; --left, ++next) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(*next)) & 0xff];
  }
  return ~crc;
}

}  // namespace pto::daemon

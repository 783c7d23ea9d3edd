#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"

namespace pto::fuzz {

// Reads an input as a sequence of decisions. After its end, everything is 0.
class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size) : next_(data), left_(size) {}

  bool empty() const { return left_ == 0; }

  uint8_t Byte() { return Number<uint8_t>(); }

  template <typename T>
  T Number() {
    T value = 0;
    const size_t size = std::min(sizeof(value), left_);
    if (size > 0) std::memcpy(&value, next_, size);
    Skip(size);
    return value;
  }

  // Up to `size` bytes.
  absl::Span<const char> Bytes(size_t size) {
    size = std::min(size, left_);
    const absl::Span<const char> bytes(reinterpret_cast<const char*>(next_), size);
    Skip(size);
    return bytes;
  }

 private:
  void Skip(size_t size) {
    next_ += size;
    left_ -= size;
  }

  const uint8_t* next_;
  size_t left_;
};

}  // namespace pto::fuzz

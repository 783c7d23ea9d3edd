#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "runtime/graph/big_vector.h"
#include "runtime/graph/image.h"

namespace pto {

// Lays out sections one after another, each aligned for any record, and copies them into one
// block at the end, when its size is known. The records must live until then.
class ImageWriter {
 public:
  template <typename Records>
  ImageSection Add(const Records& records) {
    using T = typename Records::value_type;
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t begin = (size_ + 15) / 16 * 16;
    const size_t size = records.size() * sizeof(T);
    if (size > 0) parts_.push_back({begin, records.data(), size});
    size_ = begin + size;
    return {begin, records.size()};
  }

  BigVector<std::byte> Finish(ImageHeader header) {
    BigVector<std::byte> bytes;
    bytes.resize_uninitialized(size_);
    header.bytes = size_;
    std::memcpy(bytes.data(), &header, sizeof header);
    size_t end = sizeof header;
    for (const Part& part : parts_) {
      std::memset(bytes.data() + end, 0, part.begin - end);
      std::memcpy(bytes.data() + part.begin, part.data, part.size);
      end = part.begin + part.size;
    }
    std::memset(bytes.data() + end, 0, size_ - end);
    return bytes;
  }

 private:
  struct Part {
    size_t begin;
    const void* data;
    size_t size;
  };
  size_t size_ = sizeof(ImageHeader);
  std::vector<Part> parts_;
};

}  // namespace pto

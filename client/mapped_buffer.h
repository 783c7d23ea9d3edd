#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace pto {

namespace internal {
class Mapping;
}  // namespace internal

// A buffer's own memory, in this process: what is written here the next run reads, and what a run
// has written is here, without a copy. Copies are the same memory; it is unmapped with the last of
// them and of the buffer's handles. Made by Buffer::Map.
//
// Nothing watches over it. Use it only while no run uses the buffer, as Buffer::Write and Read
// would demand: not from the moment that a run is submitted until it has ended. When the buffer is
// deleted or its session ends, it turns into zeros and is nobody's but this process's.
class MappedBuffer {
 public:
  std::span<std::byte> bytes() const { return bytes_; }

  // As many elements as fit.
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  friend class Buffer;
  MappedBuffer(std::shared_ptr<internal::Mapping> mapping, std::span<std::byte> bytes)
      : mapping_(std::move(mapping)), bytes_(bytes) {}

  std::shared_ptr<internal::Mapping> mapping_;
  std::span<std::byte> bytes_;
};

}  // namespace pto

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

// The memory of a buffer, mapped into this process. Runs and this process see each other's writes
// without a copy. All copies refer to the same memory. It is unmapped when the last copy and the
// last handle of the buffer are gone. Created by Buffer::Map.
//
// Accesses are not checked. As with Buffer::Write and Read, use it only while no run uses the
// buffer, that is, not between the submission and the end of a run. When the buffer is deleted or
// its session ends, the contents become zero and the memory is private to this process.
class MappedBuffer {
 public:
  std::span<std::byte> bytes() const { return bytes_; }

  // The memory as elements of type T; an incomplete last element is omitted.
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

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "absl/types/span.h"

namespace pto::engine {

// Memory for one large array. Once it is large, it reserves an address range with room to grow.
// Only touched pages take memory, and they are large pages where the system has them. So growing
// neither copies nor clears memory, and random access is faster.
class BigMemory {
 public:
  BigMemory() = default;
  BigMemory(BigMemory&& other) noexcept { swap(other); }
  BigMemory& operator=(BigMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~BigMemory();

  void* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  // Makes room for `bytes` bytes, and for more if `grows`; keeps the first `used` bytes.
  void Reserve(size_t bytes, size_t used, bool grows);
  // Gives unused memory back if that is worth the work; may move the data.
  void Shrink(size_t used);

 private:
  void swap(BigMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(mapped_, other.mapped_);
  }

  void* data_ = nullptr;
  size_t capacity_ = 0;
  bool mapped_ = false;
};

// Like std::vector, for plain data that may become very large.
template <typename T>
class BigVector {
 public:
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= alignof(std::max_align_t));
  using value_type = T;

  BigVector() = default;
  BigVector(BigVector&& other) noexcept
      : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  BigVector& operator=(BigVector&& other) noexcept {
    memory_ = std::move(other.memory_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* data() { return static_cast<T*>(memory_.data()); }
  const T* data() const { return static_cast<const T*>(memory_.data()); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& back() { return data()[size_ - 1]; }

  void push_back(const T& value) {
    if ((size_ + 1) * sizeof(T) > memory_.capacity()) {
      const T copy = value;
      Grow(size_ + 1);
      data()[size_++] = copy;
      return;
    }
    data()[size_++] = value;
  }
  void append(absl::Span<const T> values) {
    const size_t size = size_ + values.size();
    if (size * sizeof(T) > memory_.capacity()) Grow(size);
    if (!values.empty()) std::memcpy(end(), values.data(), values.size() * sizeof(T));
    size_ = size;
  }
  void resize(size_t size) {
    if (size * sizeof(T) > memory_.capacity()) Grow(size);
    if (size > size_) std::fill(end(), data() + size, T());
    size_ = size;
  }
  // Sets the final size; the elements are uninitialised.
  void resize_uninitialized(size_t size) {
    memory_.Reserve(size * sizeof(T), 0, false);
    size_ = size;
  }
  // Room for `count` elements behind the last one. The caller fills them and then calls keep().
  T* next(size_t count) {
    if ((size_ + count) * sizeof(T) > memory_.capacity()) Grow(size_ + count);
    return end();
  }
  // Appends the first `count` elements that next() made room for.
  void keep(size_t count) { size_ += count; }
  // Call when the vector does not grow any more.
  void shrink_to_fit() { memory_.Shrink(size_ * sizeof(T)); }
  void clear() { size_ = 0; }
  // Approximate memory use.
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  void Grow(size_t size) { memory_.Reserve(size * sizeof(T), size_ * sizeof(T), true); }

  BigMemory memory_;
  size_t size_ = 0;
};

}  // namespace pto::engine

#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/buffer.h"
#include "client/dtype_of.h"
#include "client/options.h"
#include "client/tensor_bytes.h"

namespace pto {

// A handle of a buffer that contains one contiguous tensor of C++ elements. Created by
// Session::CreateTensor. Thread-safe.
template <typename T>
class Tensor {
 public:
  Tensor(Buffer buffer, std::vector<int64_t> shape)
      : buffer_(std::move(buffer)), shape_(std::move(shape)) {}

  const Buffer& buffer() const { return buffer_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  static constexpr v1::DType dtype() { return DTypeOf<T>::value; }
  uint64_t elements() const { return buffer_.bytes() / sizeof(T); }

  // Writes `data`, starting at the first element.
  absl::Status Write(std::span<const T> data, absl::Duration timeout = kDefaultTimeout) const {
    return buffer_.Write(std::as_bytes(data), 0, timeout);
  }
  // Reads all elements.
  absl::StatusOr<std::vector<T>> Read(absl::Duration timeout = kDefaultTimeout) const {
    return buffer_.template Read<T>(elements(), 0, timeout);
  }
  // Fills `data`, starting at the first element.
  absl::Status Read(std::span<T> data, absl::Duration timeout = kDefaultTimeout) const {
    return buffer_.Read(std::as_writable_bytes(data), 0, timeout);
  }

 private:
  Buffer buffer_;
  std::vector<int64_t> shape_;
};

}  // namespace pto

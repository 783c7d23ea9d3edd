#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/job/values.h"
#include "pto/v1/graph.pb.h"

namespace pto::job {

// Elements of a buffer's bytes that a tensor shows, in order of the tensor.
class View {
 public:
  // Checks that the tensor lies inside `buffer_bytes`. The error's field is relative to the
  // tensor: `shape[0]`, `strides`, `offset`.
  static absl::StatusOr<View> Make(const pto::v1::TensorSpec& tensor, uint64_t buffer_bytes);

  int64_t size() const { return size_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  pto::v1::DType dtype() const { return dtype_; }

  // Element `index` of the tensor in the bytes of its buffer, which has the checked size.
  double Get(const std::string& buffer, int64_t index) const;
  void Set(std::string* buffer, int64_t index, double value) const;
  // All elements, contiguous.
  Array Extract(const std::string& buffer) const;

 private:
  size_t Place(int64_t index) const;

  pto::v1::DType dtype_ = pto::v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape_;
  // Empty when contiguous.
  std::vector<int64_t> strides_;
  int64_t offset_ = 0;
  int64_t size_ = 0;
};

}  // namespace pto::job

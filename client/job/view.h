#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/job/values.h"
#include "pto/v1/graph.pb.h"

namespace pto::job {

// The view of a tensor on the bytes of its buffer.
class View {
 public:
  // Checks that the tensor fits into `buffer_bytes`. The field of an error is relative to the
  // tensor: `shape[0]`, `strides`, `offset`.
  static absl::StatusOr<View> Make(const pto::v1::TensorSpec& tensor, uint64_t buffer_bytes);

  int64_t size() const { return size_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  pto::v1::DType dtype() const { return dtype_; }

  // Position of element `index` of the tensor in the bytes of its buffer, which must have the
  // checked size.
  double Get(const std::string& buffer, int64_t index) const;
  void Set(std::string* buffer, int64_t index, double value) const;
  // Copies all elements into a contiguous array.
  Array Extract(const std::string& buffer) const;

 private:
  size_t Place(int64_t index) const;

  pto::v1::DType dtype_ = pto::v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape_;
  // Empty if contiguous.
  std::vector<int64_t> strides_;
  int64_t offset_ = 0;
  int64_t size_ = 0;
};

}  // namespace pto::job

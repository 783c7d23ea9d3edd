#include "client/job/view.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::job {
namespace {

constexpr int kMaxDims = 5;

absl::Status Refuse(absl::string_view field, absl::string_view message) {
  return Error(reason::kFieldInvalid, message).At(field);
}

}  // namespace

absl::StatusOr<View> View::Make(const pto::v1::TensorSpec& tensor, uint64_t buffer_bytes) {
  View view;
  view.dtype_ = tensor.dtype();
  view.shape_.assign(tensor.shape().begin(), tensor.shape().end());
  view.strides_.assign(tensor.strides().begin(), tensor.strides().end());
  view.offset_ = tensor.offset();
  if (DTypeBytes(view.dtype_) == 0) return Refuse("dtype", "expected an element type");
  if (tensor.shape_size() > kMaxDims) {
    return Refuse("shape", absl::StrCat("expected at most ", kMaxDims, " dimensions, got ",
                                        tensor.shape_size()));
  }
  for (int i = 0; i < tensor.shape_size(); ++i) {
    if (tensor.shape(i) < 0) {
      return Refuse(absl::StrCat("shape[", i, "]"),
                    absl::StrCat("expected 0 or more, got ", tensor.shape(i)));
    }
  }
  absl::StatusOr<int64_t> size = ElementCount(view.shape_);
  if (!size.ok()) return Refuse("shape", size.status().message());
  view.size_ = *size;
  if (!view.strides_.empty() && view.strides_.size() != view.shape_.size()) {
    return Refuse("strides", absl::StrCat("expected one for each of ", view.shape_.size(),
                                          " dimensions, got ", view.strides_.size()));
  }
  for (size_t i = 0; i < view.strides_.size(); ++i) {
    if (view.strides_[i] < 1) {
      return Refuse(absl::StrCat("strides[", i, "]"),
                    absl::StrCat("expected 1 or more, got ", view.strides_[i]));
    }
  }
  if (view.offset_ < 0) {
    return Refuse("offset", absl::StrCat("expected 0 or more, got ", view.offset_));
  }
  if (view.size_ == 0) return view;
  // The last element has the largest offset.
  int64_t last = view.strides_.empty() ? view.size_ - 1 : 0;
  bool overflow = false;
  for (size_t i = 0; i < view.strides_.size(); ++i) {
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(view.shape_[i] - 1, view.strides_[i], &reach) ||
                __builtin_add_overflow(last, reach, &last);
  }
  overflow |= __builtin_add_overflow(last, view.offset_, &last);
  const uint64_t fits = buffer_bytes / DTypeBytes(view.dtype_);
  if (overflow || static_cast<uint64_t>(last) >= fits) {
    return Refuse("", absl::StrCat("extends beyond its buffer, which has space for ", fits, " ",
                                   pto::v1::DType_Name(view.dtype_), " elements"));
  }
  return view;
}

size_t View::Place(int64_t index) const {
  int64_t element = offset_;
  if (strides_.empty()) {
    element += index;
  } else {
    for (size_t i = shape_.size(); i-- > 0;) {
      element += (index % shape_[i]) * strides_[i];
      index /= shape_[i];
    }
  }
  return static_cast<size_t>(element) * DTypeBytes(dtype_);
}

double View::Get(const std::string& buffer, int64_t index) const {
  return LoadElement(dtype_, buffer.data() + Place(index));
}

void View::Set(std::string* buffer, int64_t index, double value) const {
  StoreElement(dtype_, value, buffer->data() + Place(index));
}

Array View::Extract(const std::string& buffer) const {
  Array array = MakeArray(dtype_, shape_);
  const size_t each = DTypeBytes(dtype_);
  if (strides_.empty()) {
    if (size_ > 0) std::memcpy(array.bytes.data(), buffer.data() + Place(0), size_ * each);
    return array;
  }
  for (int64_t i = 0; i < size_; ++i) {
    std::memcpy(array.bytes.data() + i * each, buffer.data() + Place(i), each);
  }
  return array;
}

}  // namespace pto::job

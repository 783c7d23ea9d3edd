#include "kernels/check.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/dtype.h"

namespace pto::kernels {

std::string ShapeText(const pto_tensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(absl::MakeConstSpan(tensor.shape, tensor.ndim), ","), "]");
}

int32_t Check::Refuse(absl::string_view text) const {
  if (message != nullptr && message_size > 0) {
    const std::string full = absl::StrCat(kernel, ": ", text);
    const size_t length = std::min(full.size(), message_size - 1);
    std::memcpy(message, full.data(), length);
    message[length] = '\0';
  }
  return 1;
}

int32_t Check::Count() const {
  if (tensor_count == arguments.size()) return 0;
  return Refuse(absl::StrCat("takes ", arguments.size(), " tensors, got ", tensor_count));
}

int32_t Check::SameDtype(uint32_t count) const {
  for (uint32_t i = 1; i < count; ++i) {
    if (tensors[i].dtype == tensors[0].dtype) continue;
    return Refuse(absl::StrCat("element types differ: ", arguments[0].name, " is ",
                               DtypeName(tensors[0].dtype), ", ", arguments[i].name, " is ",
                               DtypeName(tensors[i].dtype)));
  }
  return 0;
}

int32_t Check::SameShape(uint32_t count) const {
  for (uint32_t i = 1; i < count; ++i) {
    const pto_tensor& a = tensors[0];
    const pto_tensor& b = tensors[i];
    if (a.ndim == b.ndim && std::equal(a.shape, a.shape + a.ndim, b.shape)) continue;
    return Refuse(absl::StrCat("shapes differ: ", Describe(0), ", ", Describe(i)));
  }
  return 0;
}

int32_t Check::AllAlike() const {
  if (int32_t refused = Count()) return refused;
  if (int32_t refused = SameDtype(tensor_count)) return refused;
  return SameShape(tensor_count);
}

int32_t Check::OneElement(uint32_t index) const {
  const pto_tensor& tensor = tensors[index];
  if (std::all_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t n) { return n == 1; })) {
    return 0;
  }
  return Refuse(absl::StrCat(Describe(index), ", expected one element, such as [1]"));
}

std::string Check::Describe(uint32_t index) const {
  return absl::StrCat(arguments[index].name, " is ", ShapeText(tensors[index]));
}

}  // namespace pto::kernels

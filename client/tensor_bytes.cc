#include "client/tensor_bytes.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto {

absl::StatusOr<uint64_t> TensorBytes(absl::Span<const int64_t> shape, uint64_t element_bytes) {
  uint64_t bytes = element_bytes;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] <= 0) {
      return Error(reason::kTensorInvalid, absl::StrCat("dimension ", i, " has the size ", shape[i],
                                                        "; it must be positive"))
          .At(absl::StrCat("shape[", i, "]"));
    }
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(shape[i]), &bytes)) {
      return Error(reason::kTensorInvalid, "the size of the tensor in bytes exceeds 64 bits")
          .At("shape");
    }
  }
  return bytes;
}

uint64_t ElementBytes(v1::DType dtype) {
  switch (dtype) {
    case v1::I8:
    case v1::U8:
    case v1::BOOL:
      return 1;
    case v1::F16:
    case v1::BF16:
    case v1::I16:
    case v1::U16:
      return 2;
    case v1::F32:
    case v1::I32:
    case v1::U32:
      return 4;
    case v1::F64:
    case v1::I64:
    case v1::U64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace pto

#include "runtime/graph/layout.h"

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"

namespace pto::engine {

absl::StatusOr<Layout> MakeLayout(uint32_t dtype, absl::Span<const int64_t> shape,
                                  absl::Span<const int64_t> strides) {
  if (kernels::DtypeSize(dtype) == 0) {
    return Error(reason::kTensorInvalid, absl::StrCat("element type ", dtype, " is not known"))
        .At("dtype")
        .With("dtype", dtype)
        .Hint("use a type such as F32");
  }
  if (shape.size() > PTO_MAX_DIMS) {
    return Error(reason::kTensorInvalid, absl::StrCat("a tensor has at most ", PTO_MAX_DIMS,
                                                      " dimensions, not ", shape.size()))
        .At("shape")
        .With("have", shape.size())
        .With("want", PTO_MAX_DIMS);
  }
  if (!strides.empty() && strides.size() != shape.size()) {
    return Error(reason::kTensorInvalid, absl::StrCat("there are ", strides.size(), " strides for ",
                                                      shape.size(), " dimensions"))
        .At("strides")
        .With("have", strides.size())
        .With("want", shape.size());
  }
  Layout layout;
  layout.dtype = dtype;
  layout.ndim = static_cast<uint32_t>(shape.size());
  bool empty = false;
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0 || shape[i] > kMaxElements) {
      return Error(reason::kTensorInvalid, absl::StrCat("a size of ", shape[i], " is invalid"))
          .At(absl::StrCat("shape[", i, "]"))
          .With("have", shape[i]);
    }
    layout.shape[i] = shape[i];
    if (shape[i] == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(elements, shape[i], &elements) || elements > kMaxElements) {
      return Error(reason::kTensorInvalid, "the shape has more elements than can be addressed")
          .At("shape");
    }
  }
  int64_t contiguous = 1;
  int64_t last = 0;
  for (size_t i = shape.size(); i-- > 0;) {
    const int64_t stride = strides.empty() ? contiguous : strides[i];
    if (stride < 1 || stride > kMaxElements) {
      return Error(reason::kTensorInvalid, absl::StrCat("a stride of ", stride, " is invalid"))
          .At(absl::StrCat("strides[", i, "]"))
          .With("have", stride)
          .Hint("strides are at least 1; a broadcast or a negative step has to be copied");
    }
    layout.strides[i] = stride;
    if (empty) continue;
    int64_t span = 0;
    if (__builtin_mul_overflow(shape[i] - 1, stride, &span) ||
        __builtin_add_overflow(last, span, &last) || last > kMaxElements) {
      return Error(reason::kTensorInvalid, "shape and strides exceed the address range")
          .At("strides");
    }
    contiguous *= shape[i];
  }
  layout.extent = empty ? 0 : last + 1;
  return layout;
}

absl::StatusOr<uint64_t> BytesNeeded(const Layout& layout, int64_t offset) {
  if (!IsOffset(offset)) {
    return Error(reason::kTensorInvalid, absl::StrCat("an offset of ", offset, " is invalid"))
        .At("offset")
        .With("have", offset);
  }
  if (layout.extent == 0) return 0;
  return static_cast<uint64_t>(offset + layout.extent) * kernels::DtypeSize(layout.dtype);
}

std::string ShapeText(const Layout& layout) {
  std::string text = "[";
  for (uint32_t i = 0; i < layout.ndim; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", layout.shape[i]);
  }
  return text + "]";
}

}  // namespace pto::engine

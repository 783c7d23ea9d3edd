#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "kernels/block.h"
#include "kernels/builtin.h"
#include "kernels/check.h"
#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/stream.h"
#include "kernels/strided.h"
#include "runtime/base/long_copy.h"

namespace pto::kernels {
namespace {

constexpr pto_argument_info kArguments[] = {{"in", PTO_INPUT, PTO_DTYPE_ALL},
                                            {"out", PTO_OUTPUT, PTO_DTYPE_ALL}};
constexpr pto_overlap_info kOverlaps[] = {{}, {.same = PTO_ARGUMENT_BIT(0), .any = 0}};

// T is any type of the element's size: the bits are only moved.
template <typename T>
int32_t CopyElements(const pto_context* context) {
  const pto_tensor& in = context->tensors[0];
  const pto_tensor& out = context->tensors[1];
  const StridedRange<2> range({&in, &out});
  const bool streamed = IsStreamed(out, {&in});
  ForShare(context, range, BlockShare(context, range.size()),
           [&](const auto& offsets, const auto& strides, int64_t count, int64_t) {
             const T* from = static_cast<const T*>(in.data) + offsets[0];
             T* to = static_cast<T*>(out.data) + offsets[1];
             const auto bytes = static_cast<size_t>(count) * sizeof(T);
             if (strides[0] == 1 && strides[1] == 1 && streamed) {
               LongCopy(to, from, bytes, /*stream=*/true);
             } else if (strides[0] == 1 && strides[1] == 1) {
               // Not memcpy: out and in may be the same.
               std::memmove(to, from, bytes);
             } else {
               for (int64_t i = 0; i < count; ++i) to[i * strides[1]] = from[i * strides[0]];
             }
           });
  return 0;
}

int32_t Copy(const pto_context* context) {
  const uint32_t dtype = context->tensors[0].dtype;
  switch (DtypeSize(dtype)) {
    case 1:
      return CopyElements<uint8_t>(context);
    case 2:
      return CopyElements<uint16_t>(context);
    case 4:
      return CopyElements<uint32_t>(context);
    case 8:
      return CopyElements<uint64_t>(context);
    default:
      return Fail(context, absl::StrCat("there is no element type ", dtype));
  }
}

int32_t CheckCopy(const pto_tensor* tensors, uint32_t tensor_count, char* message,
                  size_t message_size) {
  return Check{"copy", kArguments, tensors, tensor_count, message, message_size}.AllAlike();
}

constexpr pto_kernel_info kKernels[] = {{
    .struct_size = sizeof(pto_kernel_info),
    .name = "copy",
    .description = "Copies in to out, which has the same shape and element type.",
    .function = Copy,
    .check = CheckCopy,
    .default_core = PTO_AIV,
    .arguments = kArguments,
    .argument_count = std::size(kArguments),
    .scalars = nullptr,
    .scalar_count = 0,
    .requires_sync_start = 0,
    .flags = 0,
    .control = PTO_CONTROL_NONE,
    .overlaps = kOverlaps,
    .cost = CostOfAll,
}};

}  // namespace

absl::Span<const pto_kernel_info> CopyKernels() { return kKernels; }

}  // namespace pto::kernels

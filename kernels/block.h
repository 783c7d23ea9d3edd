#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"
#include "kernels/pto_kernel.h"

// Shared by the built-in kernels: errors, cancellation, and a block's share of the work.
namespace pto::kernels {

// Reports why the block fails. Returns the value that the kernel has to return.
int32_t Fail(const pto_context* context, const std::string& text);

inline bool Cancelled(const pto_context* context) {
  return context->api != nullptr && context->api->cancelled != nullptr &&
         context->api->cancelled(context) != 0;
}

// From `begin` up to but not including `end`.
struct Share {
  int64_t begin;
  int64_t end;
};

// The block's share of `total` items: contiguous, with sizes that differ by at most one between
// blocks. Empty for some blocks if there are more blocks than items.
inline Share BlockShare(const pto_context* context, int64_t total) {
  const int64_t index = context->block_index;
  const int64_t count = std::max<int64_t>(context->block_count, 1);
  if (index >= count) return {total, total};
  const int64_t each = total / count;
  const int64_t rest = total % count;
  const int64_t begin = index * each + std::min(index, rest);
  return {begin, begin + each + (index < rest ? 1 : 0)};
}

// Calls `visit(T{})`, where T is the C++ type of `dtype`, one of kArithmeticTypes, and returns its
// result.
template <typename Visit>
int32_t WithElementType(const pto_context* context, uint32_t dtype, Visit visit) {
  switch (dtype) {
    case PTO_F32:
      return visit(float{});
    case PTO_F16:
      return visit(F16{});
    case PTO_BF16:
      return visit(BF16{});
    case PTO_I32:
      return visit(int32_t{});
    case PTO_I64:
      return visit(int64_t{});
    default:
      return Fail(context, absl::StrCat("elements of type ", DtypeName(dtype), " (", dtype,
                                        ") are not supported"));
  }
}

}  // namespace pto::kernels

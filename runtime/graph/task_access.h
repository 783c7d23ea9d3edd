#pragma once

#include <cstdint>

#include "kernels/pto_kernel.h"
#include "runtime/graph/image.h"

namespace pto::engine {

// Calls `visit(tensor, writes)` for every memory access of a task that creates dependencies: the
// arguments of all its kernels on all its chips, by direction, and its predicate. A tensor may be
// visited more than once; a written tensor may also be read.
template <typename Visit>
void ForEachAccess(const GraphImage& image, uint32_t task, Visit visit) {
  const ImageDetail* const detail = image.detail(task);
  const auto visit_args = [&](const pto_kernel_info& kernel, uint32_t member) {
    const absl::Span<const uint32_t> args = image.args(task, member);
    for (uint32_t i = 0; i < args.size(); ++i) {
      if (detail != nullptr && (detail->no_dependency_args >> i & 1) != 0) continue;
      const uint32_t direction = kernel.arguments[i].direction;
      if (direction != PTO_NO_DEPENDENCY) visit(args[i], direction != PTO_INPUT);
    }
  };
  if (detail == nullptr) {
    visit_args(image.kernel(task), 0);
    return;
  }
  for (uint32_t member = 0; member < detail->member_count; ++member) {
    visit_args(image.kernel(task), member);
    for (const uint32_t kernel : detail->vector_kernels) {
      if (kernel != ImageDetail::kNone) visit_args(image.kernel_info(kernel), member);
    }
  }
  if (detail->predicate_tensor != ImageDetail::kNone) visit(detail->predicate_tensor, false);
}

}  // namespace pto::engine

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

// The collectives by file. A task that runs a collective has a rank on each of its chips, in the
// order of its members; all ranks have the same scalars, and their own tensors. The input and
// output of a rank may be the same memory where that makes sense; otherwise they must be disjoint.
// The infos live as long as the program.
namespace pto::kernels::collectives {

absl::Span<const pto_kernel_info> AllReduceKernels();
absl::Span<const pto_kernel_info> ReduceKernels();    // reduce, reduce_scatter
absl::Span<const pto_kernel_info> SpreadKernels();    // broadcast, all_gather
absl::Span<const pto_kernel_info> PartKernels();      // scatter, gather, send_recv, barrier
absl::Span<const pto_kernel_info> ExchangeKernels();  // all_to_all, all_to_all_v

// All element types, and those that can be reduced.
inline constexpr uint32_t kMovable = PTO_DTYPE_ALL;
inline constexpr uint32_t kReducible = PTO_DTYPE_ALL & ~PTO_DTYPE_BIT(PTO_BOOL);

// The numbers of all_reduce's algorithms.
enum Algorithm : int64_t { kAuto = 0, kOneShot = 1, kTwoShot = 2, kRing = 3, kBidirectional = 4 };

// Whether input and output may be the same memory depends on the rank: the plans check this.
inline constexpr pto_overlap_info kInAndOut[] = {{}, {.same = 0, .any = PTO_ARGUMENT_BIT(0)}};

// Describes a collective for the registry. `overlaps` has one entry for each argument.
constexpr pto_kernel_info Collective(const char* name, const char* description,
                                     pto_kernel_function function, pto_plan_function plan,
                                     absl::Span<const pto_argument_info> arguments,
                                     absl::Span<const pto_scalar_info> scalars,
                                     const pto_overlap_info* overlaps) {
  return {
      .struct_size = sizeof(pto_kernel_info),
      .name = name,
      .description = description,
      .function = function,
      .check = nullptr,
      .default_core = PTO_AIV,
      .arguments = arguments.data(),
      .argument_count = static_cast<uint32_t>(arguments.size()),
      .scalars = scalars.data(),
      .scalar_count = static_cast<uint32_t>(scalars.size()),
      .requires_sync_start = 0,
      .flags = 0,
      .control = PTO_CONTROL_NONE,
      .plan = plan,
      .overlaps = overlaps,
  };
}

}  // namespace pto::kernels::collectives

/* The ABI as a C compiler sees it. What fails here breaks kernels that are already built. */
#include "kernels/pto_kernel.h"

#define SAME(what, value) _Static_assert((what) == (value), #what " has changed")

SAME(sizeof(pto_tensor), 96);
SAME(offsetof(pto_tensor, dtype), 8);
SAME(offsetof(pto_tensor, ndim), 12);
SAME(offsetof(pto_tensor, shape), 16);
SAME(offsetof(pto_tensor, strides), 56);
SAME(sizeof(pto_scalar), 8);
SAME(offsetof(pto_kernel_api, cancelled), 8);
SAME(offsetof(pto_kernel_api, log), 16);
SAME(offsetof(pto_kernel_api, set_error), 24);
SAME(offsetof(pto_kernel_api, wait), 32);
SAME(offsetof(pto_kernel_api, notify), 40);
SAME(offsetof(pto_kernel_api, barrier), 48);
SAME(offsetof(pto_kernel_api, copy), 56);
SAME(offsetof(pto_kernel_api, wait_copy), 64);
SAME(offsetof(pto_kernel_api, defer), 72);
SAME(offsetof(pto_kernel_api, defer_copy), 80);
SAME(offsetof(pto_context, block_index), 4);
SAME(offsetof(pto_context, block_count), 8);
SAME(offsetof(pto_context, tensor_count), 24);
SAME(offsetof(pto_context, tensors), 32);
SAME(offsetof(pto_context, scalars), 40);
SAME(offsetof(pto_context, api), 48);
SAME(offsetof(pto_context, engine), 56);
SAME(offsetof(pto_context, member_index), 64);
SAME(offsetof(pto_context, member_count), 68);
SAME(offsetof(pto_context, members), 72);
SAME(offsetof(pto_context, lane), 80);
SAME(offsetof(pto_context, phase), 84);
SAME(offsetof(pto_context, phase_count), 88);
SAME(offsetof(pto_context, workspace), 96);
SAME(offsetof(pto_context, kernel_data), 104);
SAME(offsetof(pto_launch, members), 24);
SAME(offsetof(pto_launch, scalars), 32);
SAME(offsetof(pto_launch, kernel_data), 40);
SAME(offsetof(pto_plan, workspace_bytes), 8);
SAME(offsetof(pto_plan, phase_bytes), 16);
SAME(sizeof(pto_signal), 16);
SAME(sizeof(pto_argument_info), 16);
SAME(sizeof(pto_scalar_info), 16);
SAME(offsetof(pto_kernel_info, name), 8);
SAME(offsetof(pto_kernel_info, description), 16);
SAME(offsetof(pto_kernel_info, function), 24);
SAME(offsetof(pto_kernel_info, check), 32);
SAME(offsetof(pto_kernel_info, default_core), 40);
SAME(offsetof(pto_kernel_info, arguments), 48);
SAME(offsetof(pto_kernel_info, argument_count), 56);
SAME(offsetof(pto_kernel_info, scalars), 64);
SAME(offsetof(pto_kernel_info, scalar_count), 72);
SAME(offsetof(pto_kernel_info, requires_sync_start), 76);
SAME(offsetof(pto_kernel_info, flags), 80);
SAME(offsetof(pto_kernel_info, control), 84);
SAME(offsetof(pto_kernel_info, plan), 88);
SAME(offsetof(pto_kernel_info, overlaps), 96);
SAME(offsetof(pto_kernel_info, cost), 104);
SAME(sizeof(pto_overlap_info), 8);

int main(void) { return 0; }

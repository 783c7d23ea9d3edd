/* A kernel in C, which describes itself without any macro. */
#include "pto_kernel.h"

#ifndef EXTRA_BYTES
#define EXTRA_BYTES 0 /* that the description claims to have, and does not */
#endif

static int32_t Add(const pto_context* context) {
  float* const out = (float*)context->tensors[0].data;
  for (int64_t i = 0; i < context->tensors[0].shape[0]; ++i) out[i] += 1;
  return PTO_OK;
}

static const pto_argument_info kArguments[] = {{"x", PTO_INOUT, PTO_DTYPE_BIT(PTO_F32)}};

extern const pto_kernel_info exported __asm__("pto_kernel_info");
const pto_kernel_info exported = {
    .struct_size = sizeof(pto_kernel_info) + EXTRA_BYTES,
    .name = "add_one",
    .description = "Adds 1.",
    .function = Add,
    .default_core = PTO_AIV,
    .arguments = kArguments,
    .argument_count = 1,
};

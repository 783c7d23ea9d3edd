// z = x + y with the C++ layer, and a second kernel in the same object: z = z · factor.
#include "pto_kernel_cpp.h"

static void Add(const pto::kernel::Block& block) {
  const auto x = block.Tensor<const float>(0), y = block.Tensor<const float>(1);
  const auto z = block.Tensor<float>(2);
  const auto [begin, end] = block.Share(z.size());
  for (int64_t i = begin; i < end; ++i) z[i] = x[i] + y[i];
}

static void Scale(const pto::kernel::Block& block) {
  const auto z = block.Tensor<float>(0);
  const auto [begin, end] = block.Share(z.size());
  for (int64_t i = begin; i < end; ++i) z[i] *= static_cast<float>(block.Float(0));
}

PTO_EXPORT_KERNEL(Add, pto::kernel::Describe("own_add", "Adds two tensors.")
                           .In("x", PTO_F32)
                           .In("y", PTO_F32)
                           .Out("z", PTO_F32)
                           .MayBeSame(PTO_ARGUMENT_BIT(0) | PTO_ARGUMENT_BIT(1)));

PTO_EXPORT_KERNEL_AS(
    "own_scale", Scale,
    pto::kernel::Describe("own_scale", "Multiplies a tensor.").InOut("z", PTO_F32).Float("factor"));

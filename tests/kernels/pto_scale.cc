// y = x · factor + shift, with an f32 and an i32.
#include "tests/kernels/pto_sim.h"

extern "C" void kernel_entry(int64_t* args) {
  const sim::Tensor x(args[0]), y(args[1]);
  const float factor = sim::F32(args[2]);
  const int32_t shift = static_cast<int32_t>(args[3]);
  for (uint64_t i = 0; i < y.size(); ++i) {
    *y.Element<float>(i) = *x.Element<float>(i) * factor + static_cast<float>(shift);
  }
}

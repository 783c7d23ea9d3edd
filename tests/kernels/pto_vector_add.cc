// z = x + y, for views of any shape and offset.
#include "tests/kernels/pto_sim.h"

extern "C" void kernel_entry(int64_t* args) {
  const sim::Tensor x(args[0]), y(args[1]), z(args[2]);
  for (uint64_t i = 0; i < z.size(); ++i) {
    *z.Element<float>(i) = *x.Element<float>(i) + *y.Element<float>(i);
  }
}

// Each block writes its number, and how many there are, into its own line.
#include "tests/kernels/pto_sim.h"

extern "C" void kernel_entry(int64_t* args) {
  const sim::Tensor out(args[0]);
  const uint32_t block = sim::BlockIndex(args);
  *out.Element<int32_t>(16 * uint64_t{block}) = static_cast<int32_t>(block);
  *out.Element<int32_t>(16 * uint64_t{block} + 1) = static_cast<int32_t>(sim::BlockCount(args));
}

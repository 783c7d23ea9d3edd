// Tells all other ranks, and ends when all of them have told this one. The counter is a word of the
// window, whose address comes as a scalar.
#include "tests/kernels/pto_sim.h"

extern "C" void kernel_entry(int64_t* args) {
  const sim::Tensor done(args[0]);
  const sim::Comm comm(args[1]);
  uint32_t* const counter = reinterpret_cast<uint32_t*>(static_cast<uint64_t>(args[2]));
  for (uint32_t peer = 0; peer < comm.ranks(); ++peer) {
    if (peer != comm.rank()) sim::NotifyAdd(comm.Remote(counter, peer), 1);
  }
  sim::Defer(args, 0, reinterpret_cast<uint64_t>(counter), comm.ranks() - 1);
  *done.Element<int32_t>(0) = 1;
}

// A vector core of a cluster: adds 1 to what the cube core gives it, and writes it to its place.
#include "tests/kernels/pto_pipe.h"
#include "tests/kernels/pto_sim.h"

extern "C" void kernel_entry(int64_t* args) {
  const sim::Tensor y(args[1]);
  const uint32_t core = sim::SubBlockOfThread();
  // Both ways to ask must agree.
  if (static_cast<int32_t>(core) != sim::SubBlock(args)) return;
  sim::Pipe& pipe = *sim::FindPipe(core);
  for (uint64_t i = core; i < y.size(); i += 2) *y.Element<int32_t>(i) = sim::Pop(pipe) + 1;
}

// Adds the inputs of all ranks. Each rank writes its input into the window of every rank, notifies
// it, and waits for all. The window: a slot of `size` floats for each rank, then a counter for
// each.
#include "tests/kernels/pto_sim.h"

extern "C" void kernel_entry(int64_t* args) {
  const sim::Tensor x(args[0]), y(args[1]);
  const sim::Comm comm(args[2]);
  const uint64_t size = x.size();
  float* const slots = reinterpret_cast<float*>(comm.window(comm.rank()));
  uint32_t* const counters = reinterpret_cast<uint32_t*>(slots + size * comm.ranks());
  for (uint32_t peer = 0; peer < comm.ranks(); ++peer) {
    float* const to = comm.Remote(slots + size * comm.rank(), peer);
    for (uint64_t i = 0; i < size; ++i) to[i] = *x.Element<float>(i);
    sim::NotifyAdd(comm.Remote(&counters[comm.rank()], peer), 1);
  }
  for (uint32_t peer = 0; peer < comm.ranks(); ++peer) sim::WaitAtLeast(&counters[peer], 1);
  for (uint64_t i = 0; i < size; ++i) {
    float sum = 0;
    for (uint32_t peer = 0; peer < comm.ranks(); ++peer) sum += slots[size * peer + i];
    *y.Element<float>(i) = sum;
  }
}

// The cube core of a cluster: squares its input, and gives the even elements to the first vector
// core and the odd ones to the second.
#include "tests/kernels/pto_pipe.h"
#include "tests/kernels/pto_sim.h"

extern "C" void kernel_entry(int64_t* args) {
  const sim::Tensor x(args[0]);
  sim::Pipe* const pipes[] = {sim::FindPipe(0), sim::FindPipe(1)};
  for (uint64_t i = 0; i < x.size(); ++i) {
    const int32_t value = *x.Element<int32_t>(i);
    sim::Push(*pipes[i % 2], value * value);
  }
}

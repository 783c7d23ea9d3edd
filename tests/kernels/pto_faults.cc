// Misbehaves in the way that the scalar names.
#include <stdexcept>

#include "tests/kernels/pto_sim.h"

extern "C" void kernel_entry(int64_t* args) {
  static uint32_t never = 0;
  switch (args[0]) {
    case 0:
      throw std::runtime_error("out of ideas");
    case 1:
      throw 7;
    case 2:  // the host forbade waits to give up
      setenv("PTO_CPU_SIM_TWAIT_MAX_SPINS", "3", 1);
      sim::WaitAtLeast(&never, 1);
      break;
    default:
      break;
  }
}

// Registers conditions: scalars are how many, their type, the address of a word, what is expected,
// and an error code to report.
#include "tests/kernels/pto_sim.h"

extern "C" void kernel_entry(int64_t* args) {
  const uint64_t local = static_cast<uint64_t>(args[sim::kLocal]);
  for (int64_t i = 0; i < args[0]; ++i) {
    sim::Defer(args, static_cast<int32_t>(args[1]), static_cast<uint64_t>(args[2]),
               static_cast<uint32_t>(args[3]), static_cast<uint64_t>(args[3]));
  }
  if (args[4] != 0)
    sim::Put<int32_t>(sim::Get<uint64_t>(local, 16), 0, static_cast<int32_t>(args[4]));
}

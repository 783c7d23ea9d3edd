// Writes what the kernel sees of its first argument, of the context, and of the words in between.
#include "tests/kernels/pto_sim.h"

extern "C" void kernel_entry(int64_t* args) {
  const sim::Tensor x(args[0]), out(args[1]);
  uint64_t at = 0;
  const auto write = [&](uint64_t value) { *out.Element<uint64_t>(at++) = value; };
  write(x.buffer());
  write(x.buffer_bytes());
  write(x.owner());
  write(x.start_offset());
  write(x.ndim());
  write(x.dtype());
  write(x.contiguous());
  write(x.address_space());
  for (uint32_t d = 0; d < 5; ++d) write(x.shape(d));
  write(x.extent());
  for (uint32_t d = 0; d < 5; ++d) write(x.stride(d));
  write(static_cast<uint64_t>(args[2]));  // the first scalar
  write(static_cast<uint64_t>(args[3]));  // the second
  write(static_cast<uint64_t>(sim::SubBlock(args)));
  write(sim::Get<uint64_t>(static_cast<uint64_t>(args[sim::kGlobal]), 8));
  write(sim::Get<uint64_t>(static_cast<uint64_t>(args[sim::kGlobal]), 16));
}

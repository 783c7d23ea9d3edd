// A kernel of an older kind: its wait gives up whatever the host says. It also exports the function
// by which such kernels are given the hooks.
#include <time.h>

#include <cstdint>

static void* hooks[2];

extern "C" void pto_sim_register_hooks(void* sub_block, void* pipe) {
  hooks[0] = sub_block;
  hooks[1] = pipe;
}

extern "C" void kernel_entry(int64_t* args) {
  if (hooks[0] == nullptr || hooks[1] == nullptr) return;
  // The scalars: how many looks there are until the wait gives up, and the time between them.
  for (int64_t looks = 0; looks < args[0]; ++looks) {
    const timespec pause = {0, static_cast<long>(args[1])};
    nanosleep(&pause, nullptr);
  }
}

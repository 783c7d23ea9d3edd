// An object that ends its process while it is loaded, or never ends to be loaded.

#include <stdlib.h>

#include "kernels/pto_kernel.h"

namespace {

#ifdef PTO_TEST_HANGS
__attribute__((constructor)) void Hang() {
  volatile bool on = true;
  while (on) {
  }
}
#else
__attribute__((constructor)) void Crash() { abort(); }
#endif

int32_t DoNothing(const pto_context*) { return 0; }

}  // namespace

extern "C" __attribute__((visibility("default")))
const pto_kernel_info noop = {sizeof(pto_kernel_info),
                              "noop",
                              "For tests.",
                              &DoNothing,
                              nullptr,
                              PTO_AIV,
                              nullptr,
                              0,
                              nullptr,
                              0,
                              0,
                              0,
                              0};

#pragma once

namespace pto {

// Tells the processor that this thread spins, so that the core's other hardware thread gets more of
// it.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace pto

#pragma once

#include <pthread.h>

#include <cstddef>

#include "runtime/base/sanitized.h"

namespace pto::engine::testing {

// Calls `function` on a thread with a small stack, and returns when it has returned. For tests that
// something long needs no deep stack: with one frame of 100 bytes for each of some ten thousand
// links of a chain, this ends the process.
template <typename Function>
void OnSmallStack(Function function) {
  constexpr size_t kBytes = kSanitized ? 1024 << 10 : 192 << 10;
  pthread_attr_t attributes;
  pthread_t thread;
  if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, kBytes) != 0 ||
      pthread_create(
          &thread, &attributes,
          [](void* argument) -> void* {
            (*static_cast<Function*>(argument))();
            return nullptr;
          },
          &function) != 0) {
    __builtin_trap();
  }
  pthread_attr_destroy(&attributes);
  pthread_join(thread, nullptr);
}

}  // namespace pto::engine::testing

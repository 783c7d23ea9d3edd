#pragma once

#include <cstddef>
#include <cstdint>

namespace pto {

// Has the processor load these bytes: they will be used soon, and have not been for long.
inline void Prefetch(const void* begin, size_t bytes) {
  constexpr size_t kLine = 64;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  for (uintptr_t line = address & ~(kLine - 1); line < address + bytes; line += kLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(line), 1);
  }
}

}  // namespace pto

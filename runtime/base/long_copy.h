#pragma once

#include <cstddef>

namespace pto {

// memcpy for what the reader will not look at soon: with `stream`, it goes past the caches, so that
// long outputs do not push the inputs out.
void LongCopy(void* to, const void* from, size_t bytes, bool stream);

// From how many bytes on, over all members, a collective's output goes past the caches.
inline constexpr size_t kStreamBytes = size_t{16} << 20;

}  // namespace pto

#pragma once

#include <cstddef>

namespace pto {

// A memcpy for data that is not read soon: with `stream`, it bypasses the caches, so that long
// outputs do not evict the inputs.
void LongCopy(void* to, const void* from, size_t bytes, bool stream);

// A collective whose output has at least this many bytes, over all members, bypasses the caches.
inline constexpr size_t kStreamBytes = size_t{16} << 20;

}  // namespace pto

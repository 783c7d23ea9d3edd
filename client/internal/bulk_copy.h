#pragma once

#include <cstddef>

namespace pto::internal {

// memcpy for large ranges whose offsets within a page are not ours to choose.
//
// If the target is at a slightly higher offset in its page than the source, a processor assumes
// that each load depends on the store just before it, and memcpy drops to a third of its speed.
// This is the common case: shared memory is page-aligned, and malloc returns addresses 16 bytes
// after a page. Non-temporal stores avoid this. They are also used for long ranges, where memcpy
// reads each line of the target before it writes it, which takes half as long again.
//
// One thread cannot saturate the memory. From kSharedBytes on, a second thread, created for this,
// copies half.
void BulkCopy(std::byte* to, const std::byte* from, size_t bytes);

inline constexpr size_t kSharedBytes = size_t{16} << 20;

}  // namespace pto::internal

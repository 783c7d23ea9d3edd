#pragma once

#include <cstddef>

namespace pto::internal {

// memcpy for large blocks whose places within a page are not ours to choose.
//
// Where the target lies a little further within its page than the source, a processor takes each
// load for one that needs the store just before it, and memcpy falls to a third of its speed. That
// is the common case: shared memory begins with a page, and what malloc gives 16 bytes after one.
// Stores that go past the caches do without that. They are used for long blocks, too, where memcpy
// reads each line of the target before it writes it: that takes half as long again.
//
// One thread does not use all that memory can do. From kSharedBytes on a second one, made for it,
// copies half.
void BulkCopy(std::byte* to, const std::byte* from, size_t bytes);

inline constexpr size_t kSharedBytes = size_t{16} << 20;

}  // namespace pto::internal

#include "client/internal/bulk_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace pto::internal {
namespace {

constexpr size_t kPage = 4096;

// All relative offsets of two ranges in their pages, near and far; nothing around them is touched.
TEST(BulkCopyTest, CopiesEveryByteAndNoOther) {
  std::vector<std::byte> from(8 * kPage);
  for (size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i * 7 % 251 + 1);
  std::vector<std::byte> to(8 * kPage);
  for (const size_t source : {0, 1, 16, 63, 100}) {
    for (const size_t ahead : {0, 1, 15, 16, 64, 255, 1000, 1023, 1024, 2048, 4095}) {
      for (const size_t bytes : {0, 1, 63, 4095, 4096, 4097, 4160, 12'345}) {
        // At the same offset in its page, wherever the two vectors begin.
        const auto place = reinterpret_cast<uintptr_t>(from.data()) + source + ahead;
        const size_t target = (place - reinterpret_cast<uintptr_t>(to.data())) % kPage;
        to.assign(to.size(), std::byte{0});
        BulkCopy(to.data() + target, from.data() + source, bytes);
        for (size_t i = 0; i < to.size(); ++i) {
          const bool inside = i >= target && i < target + bytes;
          ASSERT_EQ(to[i], inside ? from[source + i - target] : std::byte{0})
              << "byte " << i << " of " << bytes << ", " << ahead << " ahead";
        }
      }
    }
  }
}

// The parts of two threads meet without a gap, and nothing around them is touched.
TEST(BulkCopyTest, CopiesLargeBlocks) {
  std::vector<std::byte> from(kSharedBytes + 4 * kPage);
  for (size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i * 7 % 251 + 1);
  for (const size_t ahead : {0, 16}) {
    for (const size_t bytes : {kSharedBytes - 1, kSharedBytes, kSharedBytes + 4097}) {
      std::vector<std::byte> to(kSharedBytes + 4 * kPage);
      const auto place = reinterpret_cast<uintptr_t>(from.data()) + ahead;
      const size_t target = (place - reinterpret_cast<uintptr_t>(to.data())) % kPage;
      BulkCopy(to.data() + target, from.data(), bytes);
      std::vector<std::byte> expected(to.size());
      std::copy_n(from.begin(), bytes, expected.begin() + static_cast<ptrdiff_t>(target));
      EXPECT_TRUE(to == expected) << bytes << " bytes, " << ahead << " ahead";
    }
  }
}

}  // namespace
}  // namespace pto::internal

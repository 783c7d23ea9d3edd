#include "runtime/base/long_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace pto {
namespace {

TEST(LongCopy, CopiesEveryLengthFromEveryPlace) {
  std::vector<char> from(20'000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 31 + i / 256);
  for (const bool stream : {false, true}) {
    for (const size_t bytes : {0, 1, 31, 4095, 4096, 4097, 5000, 8191, 16384}) {
      for (size_t shift = 0; shift < 40; shift += 3) {
        std::vector<char> to(bytes + 64, 'x');
        LongCopy(to.data() + shift, from.data() + shift / 2, bytes, stream);
        const std::vector<char> expected(from.begin() + shift / 2,
                                         from.begin() + shift / 2 + bytes);
        ASSERT_EQ(std::vector<char>(to.begin() + shift, to.begin() + shift + bytes), expected);
        if (shift > 0) {
          ASSERT_EQ(to[shift - 1], 'x');
        }
        ASSERT_EQ(to[shift + bytes], 'x');
      }
    }
  }
}

}  // namespace
}  // namespace pto

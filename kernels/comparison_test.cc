#include "kernels/comparison.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace pto {
namespace {

TEST(ComparisonTest, HoldsForLessEqualOrMore) {
  struct Expected {
    pto_compare compare;
    bool less, equal, more;
    const char* text;
  };
  constexpr Expected kExpected[] = {
      {PTO_EQ, false, true, false, "=="}, {PTO_NE, true, false, true, "!="},
      {PTO_GT, false, false, true, ">"},  {PTO_GE, false, true, true, ">="},
      {PTO_LT, true, false, false, "<"},  {PTO_LE, true, true, false, "<="},
  };
  for (const Expected& expected : kExpected) {
    SCOPED_TRACE(expected.text);
    EXPECT_TRUE(IsComparison(expected.compare));
    EXPECT_EQ(CompareText(expected.compare), expected.text);
    EXPECT_EQ(Compares<int64_t>(expected.compare, -2, 1), expected.less);
    EXPECT_EQ(Compares<int64_t>(expected.compare, 1, 1), expected.equal);
    EXPECT_EQ(Compares<int64_t>(expected.compare, 2, 1), expected.more);
    constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
    constexpr int32_t kHighest = std::numeric_limits<int32_t>::max();
    EXPECT_EQ(Compares<int32_t>(expected.compare, kLowest, kHighest), expected.less);
  }
}

TEST(ComparisonTest, ThereAreNoOthers) {
  for (const int64_t other : {int64_t{PTO_EQ} - 1, int64_t{PTO_LE} + 1, int64_t{1} << 40}) {
    EXPECT_FALSE(IsComparison(other)) << other;
  }
  const auto none = static_cast<pto_compare>(PTO_LE + 1);
  EXPECT_FALSE(Compares<int64_t>(none, 1, 1));
  EXPECT_EQ(CompareText(none), "?");
}

}  // namespace
}  // namespace pto

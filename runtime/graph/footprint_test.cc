#include "runtime/graph/footprint.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace pto {
namespace {

Footprint Make(uint32_t dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
  return MakeFootprint(MakeLayout(dtype, shape, strides).value());
}

TEST(FootprintTest, AContiguousTensorIsARange) {
  const Footprint range = Make(PTO_U8, {48});
  EXPECT_TRUE(range.contiguous());
  EXPECT_EQ(range.extent, 48);
  EXPECT_EQ(Make(PTO_F32, {12}), range);
  EXPECT_EQ(Make(PTO_F32, {3, 4}), range);
  EXPECT_EQ(Make(PTO_F16, {2, 3, 4}), range);
  EXPECT_EQ(Make(PTO_I64, {1, 2, 1, 3, 1}), range);
  // Columns first.
  EXPECT_EQ(Make(PTO_F32, {3, 4}, {1, 3}), range);
}

TEST(FootprintTest, OneElementAndNone) {
  EXPECT_EQ(Make(PTO_U8, {}).extent, 1);
  EXPECT_TRUE(Make(PTO_U8, {}).contiguous());
  EXPECT_EQ(Make(PTO_F64, {1, 1}, {7, 9}).extent, 8);
  EXPECT_TRUE(Make(PTO_F32, {3, 0}).empty());
  EXPECT_FALSE(Overlaps(Make(PTO_F32, {0}), 0, Make(PTO_F32, {8}), 0));
  EXPECT_TRUE(Covers(Make(PTO_F32, {1}), 0, Make(PTO_F32, {0}), 100));
  EXPECT_FALSE(Covers(Make(PTO_F32, {0}), 0, Make(PTO_F32, {1}), 0));
}

TEST(FootprintTest, DimensionsStandByStride) {
  const Footprint tile = Make(PTO_F32, {2, 3}, {10, 1});
  ASSERT_EQ(tile.ndim, 2u);
  EXPECT_EQ(tile.dims[0], (Footprint::Dim{2, 40}));
  EXPECT_EQ(tile.dims[1], (Footprint::Dim{12, 1}));
  EXPECT_EQ(tile.extent, 52);
  EXPECT_EQ(Make(PTO_F32, {3, 2}, {1, 10}), tile);
  EXPECT_EQ(Make(PTO_F16, {1, 2, 6}, {5, 20, 1}), tile);
}

TEST(FootprintTest, ElementsThatOverlapCountOnce) {
  EXPECT_EQ(Make(PTO_U8, {4, 4}, {1, 1}), Make(PTO_U8, {7}));
  EXPECT_EQ(Make(PTO_U8, {3, 4}, {2, 1}), Make(PTO_U8, {8}));
}

TEST(FootprintTest, TilesOfAMatrix) {
  // 8 rows of 10 elements.
  const Footprint tile = Make(PTO_F32, {4, 5}, {10, 1});
  const auto at = [](int64_t row, int64_t column) { return (row * 10 + column) * 4; };
  EXPECT_TRUE(Overlaps(tile, at(0, 0), tile, at(0, 0)));
  EXPECT_FALSE(Overlaps(tile, at(0, 0), tile, at(0, 5)));
  EXPECT_FALSE(Overlaps(tile, at(0, 5), tile, at(0, 0)));
  EXPECT_FALSE(Overlaps(tile, at(0, 5), tile, at(4, 0)));
  EXPECT_TRUE(Overlaps(tile, at(0, 0), tile, at(3, 4)));
  EXPECT_TRUE(Overlaps(tile, at(3, 4), tile, at(0, 0)));
  // Over the end of the row.
  EXPECT_TRUE(Overlaps(tile, at(0, 7), tile, at(1, 0)));
  EXPECT_FALSE(Overlaps(tile, at(0, 7), tile, at(0, 2)));

  const Footprint row = Make(PTO_F32, {10});
  const Footprint all = Make(PTO_F32, {8, 10});
  EXPECT_TRUE(Overlaps(row, at(2, 0), tile, at(0, 0)));
  EXPECT_FALSE(Overlaps(row, at(4, 0), tile, at(0, 0)));
  EXPECT_TRUE(Covers(all, 0, tile, at(4, 5)));
  EXPECT_FALSE(Covers(row, 0, tile, 0));
  EXPECT_FALSE(Covers(tile, 0, row, 0));
}

TEST(FootprintTest, CoversBoxesWithin) {
  const Footprint tile = Make(PTO_F32, {4, 5}, {10, 1});
  const auto at = [](int64_t row, int64_t column) { return (row * 10 + column) * 4; };
  EXPECT_TRUE(Covers(tile, at(1, 2), tile, at(1, 2)));
  EXPECT_TRUE(Covers(tile, at(1, 2), Make(PTO_F32, {2, 3}, {10, 1}), at(3, 4)));
  EXPECT_FALSE(Covers(tile, at(1, 2), Make(PTO_F32, {2, 4}, {10, 1}), at(3, 4)));
  EXPECT_FALSE(Covers(tile, at(1, 2), Make(PTO_F32, {3, 3}, {10, 1}), at(3, 4)));
  EXPECT_FALSE(Covers(tile, at(1, 2), tile, at(0, 2)));
  // Bytes, every other row, every other column, turned round.
  EXPECT_TRUE(Covers(tile, 0, Make(PTO_U8, {3}), at(2, 3) + 1));
  EXPECT_TRUE(Covers(tile, 0, Make(PTO_F32, {2, 3}, {20, 2}), 0));
  EXPECT_TRUE(Covers(tile, 0, Make(PTO_F32, {3, 2}, {2, 20}), 0));
  EXPECT_FALSE(Covers(Make(PTO_F32, {2, 3}, {20, 2}), 0, tile, 0));
}

TEST(FootprintTest, Steps) {
  const Footprint every_other = Make(PTO_F32, {8}, {2});
  EXPECT_FALSE(Overlaps(every_other, 0, every_other, 4));
  EXPECT_TRUE(Overlaps(every_other, 0, every_other, 8));
  EXPECT_TRUE(Overlaps(every_other, 0, every_other, 2));
  const Footprint every_third = Make(PTO_F32, {8}, {3});
  EXPECT_TRUE(Overlaps(every_other, 0, every_third, 4));
  EXPECT_FALSE(Overlaps(Make(PTO_F32, {2}, {2}), 0, Make(PTO_F32, {2}, {3}), 4));
}

// Strides that make a search long: an answer comes soon, and it is the safe one.
TEST(FootprintTest, GivesUpOnTheSafeSide) {
  const int64_t many = int64_t{1} << 40;
  const Footprint a = Make(PTO_U8, {many, 3}, {6, 4});
  const Footprint b = Make(PTO_U8, {many}, {10});
  EXPECT_TRUE(Overlaps(a, 0, b, 1));
  EXPECT_FALSE(Covers(a, 0, Make(PTO_U8, {2, 2}, {12, 24}), 2));
}

}  // namespace
}  // namespace pto

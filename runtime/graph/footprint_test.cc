#include "runtime/graph/footprint.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace pto::engine {
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
  // Column-major.
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
  // Across the end of a row.
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
  // Bytes, every other row, every other column, transposed.
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

// Rows with two pitches, and coprime steps: all answers are exact, for any number of rows.
TEST(FootprintTest, OddStridesAreExact) {
  const int64_t many = int64_t{1} << 40;
  // Even positions against an odd one.
  EXPECT_FALSE(Overlaps(Make(PTO_U8, {many, 3}, {6, 4}), 0, Make(PTO_U8, {many}, {10}), 1));
  // 1,000,003 i = 1,000,000 j + 7 for the first time when i is 333,336,...
  const Footprint a = Make(PTO_U8, {1'000'000}, {1'000'003});
  const Footprint b = Make(PTO_U8, {1'000'003}, {1'000'000});
  uint64_t steps = 0;
  EXPECT_TRUE(Overlaps(a, 0, b, 7, &steps));
  EXPECT_FALSE(Overlaps(Make(PTO_U8, {1000}, {1'000'003}), 0, b, 7, &steps));
  EXPECT_LT(steps, 100u);
}

// Compared with sets of bytes, for pairs of layouts of up to three dimensions.
TEST(FootprintTest, OverlapsLikeTheBytesDo) {
  std::mt19937 random(7);
  const auto below = [&random](int64_t limit) { return static_cast<int64_t>(random() % limit); };
  const auto bytes = [](const Footprint& footprint, int64_t begin) {
    std::vector<int64_t> all = {begin};
    for (uint32_t i = 0; i < footprint.ndim; ++i) {
      const size_t count = all.size();
      for (int64_t step = 1; step < footprint.dims[i].size; ++step) {
        for (size_t j = 0; j < count; ++j) all.push_back(all[j] + step * footprint.dims[i].stride);
      }
    }
    return std::set<int64_t>(all.begin(), all.end());
  };
  const auto make = [&] {
    std::vector<int64_t> shape, strides;
    for (int64_t dims = 1 + below(3); dims > 0; --dims) {
      shape.push_back(1 + below(9));
      strides.push_back(1 + below(60));
    }
    return Make(below(2) == 0 ? PTO_U8 : PTO_F16, shape, strides);
  };
  int overlaps = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Footprint a = make(), b = make();
    const int64_t a_begin = below(300), b_begin = below(300);
    const std::set<int64_t> a_bytes = bytes(a, a_begin), b_bytes = bytes(b, b_begin);
    bool common = false;
    for (const int64_t byte : b_bytes) common |= a_bytes.count(byte) != 0;
    ASSERT_EQ(Overlaps(a, a_begin, b, b_begin), common) << i;
    overlaps += common ? 1 : 0;
    if (Covers(a, a_begin, b, b_begin)) {
      for (const int64_t byte : b_bytes) ASSERT_EQ(a_bytes.count(byte), 1u) << i;
    }
  }
  EXPECT_GT(overlaps, 2000);
  EXPECT_LT(overlaps, 18'000);
}

// The same for two strides of any length, compared with a loop over one of them.
TEST(FootprintTest, TwoLongStrides) {
  std::mt19937_64 random(11);
  const auto below = [&random](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  };
  int overlaps = 0;
  for (int i = 0; i < 20'000; ++i) {
    const int64_t scale = int64_t{1} << below(45);
    const int64_t a_size = 1 + below(300), a_stride = 2 + below(scale);
    const int64_t b_size = 1 + below(300), b_stride = 2 + below(scale);
    const int64_t b_begin = below(a_size * a_stride);
    const int64_t width = 1 + below(1 + scale / 50);
    bool common = false;
    for (int64_t k = 0; k < a_size && !common; ++k) {
      // The nearest row of b before the end of this row of a.
      const int64_t distance = k * a_stride + width - 1 - b_begin;
      if (distance < 0) continue;
      const int64_t row = std::min(distance / b_stride, b_size - 1);
      common = b_begin + row * b_stride + width - 1 >= k * a_stride;
    }
    const Footprint a = Make(PTO_U8, {a_size, width}, {a_stride, 1});
    const Footprint b = Make(PTO_U8, {b_size, width}, {b_stride, 1});
    ASSERT_EQ(Overlaps(a, 0, b, b_begin), common) << i;
    overlaps += common ? 1 : 0;
  }
  EXPECT_GT(overlaps, 2000);
  EXPECT_LT(overlaps, 19'000);
}

// Strides that need a long search: the answer comes soon, and is the safe one.
TEST(FootprintTest, GivesUpOnTheSafeSide) {
  const int64_t many = int64_t{1} << 30;
  const Footprint a = Make(PTO_U8, {many, 1000, 1000}, {1'000'003, 10'007, 101});
  const Footprint b = Make(PTO_U8, {many, 1000, 1000}, {1'000'033, 10'009, 103});
  uint64_t steps = 0;
  EXPECT_TRUE(Overlaps(a, 0, b, 1, &steps));
  EXPECT_LT(steps, 2000u);
  EXPECT_FALSE(Covers(a, 0, Make(PTO_U8, {2, 2}, {12, 24}), 2));
}

}  // namespace
}  // namespace pto::engine

#include "runtime/graph/region_index.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace pto::engine {
namespace {

class RegionIndexTest : public ::testing::Test {
 protected:
  uint32_t AddFootprint(std::vector<int64_t> shape, std::vector<int64_t> strides) {
    table_.footprints.push_back(MakeFootprint(MakeLayout(PTO_U8, shape, strides).value()));
    return static_cast<uint32_t>(table_.footprints.size() - 1);
  }
  uint32_t AddRegion(uint32_t footprint, int64_t begin) {
    Region region;
    region.footprint = footprint;
    region.begin = begin;
    table_.regions.push_back(region);
    return static_cast<uint32_t>(table_.regions.size() - 1);
  }
  // All bytes of a region, in increasing order.
  std::vector<int64_t> Bytes(uint32_t id) const {
    const Footprint& footprint = table_.footprint(table_.regions[id]);
    std::vector<int64_t> bytes = {table_.regions[id].begin};
    for (uint32_t i = 0; i < footprint.ndim; ++i) {
      const size_t count = bytes.size();
      for (int64_t step = 1; step < footprint.dims[i].size; ++step) {
        for (size_t j = 0; j < count; ++j) {
          bytes.push_back(bytes[j] + step * footprint.dims[i].stride);
        }
      }
    }
    std::sort(bytes.begin(), bytes.end());
    return bytes;
  }
  bool Overlap(uint32_t a, uint32_t b) const {
    const Region &x = table_.regions[a], &y = table_.regions[b];
    if (!Overlaps(table_.footprint(x), x.begin, table_.footprint(y), y.begin)) return false;
    // Overlaps() may have given up and returned true.
    std::vector<int64_t> common;
    const std::vector<int64_t> x_bytes = Bytes(a), y_bytes = Bytes(b);
    std::set_intersection(x_bytes.begin(), x_bytes.end(), y_bytes.begin(), y_bytes.end(),
                          std::back_inserter(common));
    return !common.empty();
  }
  std::vector<uint32_t> Near(uint32_t id) {
    std::vector<uint32_t> found;
    index_.FindNear(table_, id, true, found);
    std::sort(found.begin(), found.end());
    return found;
  }
  // Compares the search result of each region with all regions that overlap it; returns how many
  // were found.
  size_t CheckAll(const std::vector<uint32_t>& inserted) {
    size_t count = 0;
    for (uint32_t id = 0; id < table_.regions.size(); ++id) {
      const std::vector<uint32_t> near = Near(id);
      EXPECT_EQ(std::adjacent_find(near.begin(), near.end()), near.end()) << "one came twice";
      for (const uint32_t other : inserted) {
        if (other == id || std::binary_search(near.begin(), near.end(), other)) continue;
        EXPECT_FALSE(Overlap(id, other)) << id << ' ' << other;
      }
      for (const uint32_t other : near) {
        EXPECT_NE(other, id);
        EXPECT_TRUE((table_.regions[other].flags & Region::kLive) != 0);
      }
      count += near.size();
    }
    return count;
  }

  RegionTable table_;
  RegionIndex index_;
};

TEST_F(RegionIndexTest, TilesOfAGridAreFarApart) {
  constexpr int64_t kSide = 40, kHeight = 3, kWidth = 5, kPitch = kSide * kWidth;
  const uint32_t tile = AddFootprint({kHeight, kWidth}, {kPitch, 1});
  std::vector<uint32_t> inserted;
  for (int64_t row = 0; row < kSide; ++row) {
    for (int64_t column = 0; column < kSide; ++column) {
      inserted.push_back(AddRegion(tile, row * kHeight * kPitch + column * kWidth));
      index_.Insert(table_, inserted.back());
    }
  }
  for (const uint32_t id : inserted) ASSERT_TRUE(Near(id).empty());
  // A row of tiles, a column of tiles, and everything.
  const uint32_t row = AddRegion(AddFootprint({kHeight * kPitch}, {}), 7 * kHeight * kPitch);
  const uint32_t column = AddRegion(AddFootprint({kSide * kHeight, kWidth}, {kPitch, 1}), 60);
  const uint32_t all = AddRegion(AddFootprint({kSide * kHeight * kPitch}, {}), 0);
  EXPECT_EQ(Near(row).size(), 40u);
  EXPECT_EQ(Near(column).size(), 40u);
  EXPECT_EQ(Near(all).size(), 1600u);
  for (const uint32_t id : {row, column, all}) index_.Insert(table_, id);
  EXPECT_EQ(Near(0), (std::vector<uint32_t>{all}));
  EXPECT_EQ(Near(12), (std::vector<uint32_t>{column, all}));
  EXPECT_EQ(index_.size(), 1603u);
}

TEST_F(RegionIndexTest, BlocksSideBySideAreInsertedAlone) {
  const uint32_t block = AddFootprint({16}, {});
  index_.Insert(table_, AddRegion(block, 32));
  EXPECT_TRUE(index_.InsertAlone(table_, AddRegion(block, 48)));
  EXPECT_TRUE(index_.InsertAlone(table_, AddRegion(block, 1600)));
  EXPECT_EQ(index_.size(), 3u);
  // The cell is used, or half used, or the region has another size.
  EXPECT_FALSE(index_.InsertAlone(table_, AddRegion(block, 48)));
  EXPECT_FALSE(index_.InsertAlone(table_, AddRegion(block, 56)));
  EXPECT_FALSE(index_.InsertAlone(table_, AddRegion(AddFootprint({8}, {}), 64)));
  EXPECT_EQ(index_.size(), 3u);
  // A search finds all, including those in lists.
  const uint32_t all = AddRegion(AddFootprint({2000}, {}), 0);
  EXPECT_EQ(Near(all), (std::vector<uint32_t>{0, 1, 2}));
  index_.Remove(table_, 1);
  EXPECT_EQ(Near(all), (std::vector<uint32_t>{0, 2}));
  EXPECT_TRUE(index_.InsertAlone(table_, 3));
  EXPECT_EQ(Near(all), (std::vector<uint32_t>{0, 2, 3}));
}

TEST_F(RegionIndexTest, NothingIsInsertedAloneBesideOtherKinds) {
  const uint32_t block = AddFootprint({16}, {});
  index_.Insert(table_, AddRegion(block, 0));
  const uint32_t across = AddRegion(block, 24);
  index_.Insert(table_, across);
  EXPECT_FALSE(index_.InsertAlone(table_, AddRegion(block, 32)));
  RegionIndex other;
  std::swap(other, index_);
  for (const uint32_t id : {0u, across}) {
    other.Remove(table_, id);
    other.Drop(table_, id);
  }
  index_.Insert(table_, 0);
  index_.Insert(table_, AddRegion(AddFootprint({8}, {}), 64));
  EXPECT_FALSE(index_.InsertAlone(table_, AddRegion(block, 64)));
  RegionIndex strided;
  std::swap(strided, index_);
  index_.Insert(table_, AddRegion(AddFootprint({4, 4}, {16, 1}), 0));
  EXPECT_FALSE(index_.InsertAlone(table_, AddRegion(block, 64)));
}

TEST_F(RegionIndexTest, TilesOfAVolumeAreFarApart) {
  const uint32_t tile = AddFootprint({2, 3, 4}, {12 * 16, 16, 1});
  for (int64_t x = 0; x < 8; x += 2) {
    for (int64_t y = 0; y < 12; y += 3) {
      for (int64_t z = 0; z < 16; z += 4) {
        const uint32_t id = AddRegion(tile, x * 12 * 16 + y * 16 + z);
        ASSERT_TRUE(Near(id).empty());
        index_.Insert(table_, id);
      }
    }
  }
}

TEST_F(RegionIndexTest, TwoPitchesInOneSpace) {
  const uint32_t a = AddFootprint({4, 4}, {400, 1});
  const uint32_t b = AddFootprint({4, 4}, {300, 1});
  std::vector<uint32_t> inserted;
  for (int64_t i = 0; i < 100; ++i) {
    inserted.push_back(AddRegion(a, i * 4));
    inserted.push_back(AddRegion(b, 120'000 + i % 75 * 4 + i / 75 * 1200));
  }
  for (const uint32_t id : inserted) {
    ASSERT_TRUE(Near(id).empty());
    index_.Insert(table_, id);
  }
}

TEST_F(RegionIndexTest, Removes) {
  const uint32_t range = AddFootprint({10}, {});
  const uint32_t a = AddRegion(range, 0), b = AddRegion(range, 5), c = AddRegion(range, 9);
  for (const uint32_t id : {a, b, c}) index_.Insert(table_, id);
  EXPECT_EQ(Near(a), (std::vector<uint32_t>{b, c}));
  index_.Remove(table_, b);
  EXPECT_EQ(Near(a), (std::vector<uint32_t>{c}));
  EXPECT_EQ(Near(b), (std::vector<uint32_t>{a, c}));
  index_.Remove(table_, a);
  index_.Remove(table_, c);
  EXPECT_EQ(index_.size(), 0u);
  EXPECT_TRUE(Near(b).empty());
  index_.Insert(table_, a);
  EXPECT_EQ(Near(b), (std::vector<uint32_t>{a}));
}

TEST_F(RegionIndexTest, QuietRegionsAreFoundOnRequest) {
  const uint32_t range = AddFootprint({10}, {});
  const uint32_t a = AddRegion(range, 0), b = AddRegion(range, 5), c = AddRegion(range, 9);
  index_.Insert(table_, a);
  index_.Insert(table_, b, true);
  index_.Insert(table_, c, true);
  EXPECT_EQ(index_.quiet(), 2u);
  EXPECT_EQ(Near(a), (std::vector<uint32_t>{b, c}));
  std::vector<uint32_t> loud;
  index_.FindNear(table_, b, false, loud);
  EXPECT_EQ(loud, (std::vector<uint32_t>{a}));
  index_.Wake(table_, c);
  EXPECT_EQ(index_.quiet(), 1u);
  loud.clear();
  index_.FindNear(table_, a, false, loud);
  EXPECT_EQ(loud, (std::vector<uint32_t>{c}));
  index_.Remove(table_, b);
  EXPECT_EQ(index_.quiet(), 0u);
  // Reinserted, first normal and then quiet, before and after a search has noticed the removal.
  index_.Insert(table_, b);
  EXPECT_EQ(Near(a), (std::vector<uint32_t>{b, c}));
  index_.Remove(table_, b);
  EXPECT_EQ(Near(a), (std::vector<uint32_t>{c}));
  index_.Insert(table_, b, true);
  EXPECT_EQ(Near(a), (std::vector<uint32_t>{b, c}));
  EXPECT_EQ(index_.size(), 3u);
}

// Many small and many large adjacent regions: a search does not visit all of them, no matter how
// many cells of the small ones it spans.
TEST_F(RegionIndexTest, WorkDoesNotGrowWithTheNumberOfRegions) {
  const auto work = [this](int64_t count) {
    table_ = {};
    index_ = {};
    const uint32_t small = AddFootprint({4}, {}), large = AddFootprint({1 << 20}, {});
    const uint32_t tile = AddFootprint({16, 16}, {1 << 12, 1});
    const uint32_t square = AddFootprint({1 << 10, 1 << 10}, {1 << 12, 1});
    const auto add = [this](uint32_t footprint, int64_t begin) {
      const uint32_t id = AddRegion(footprint, begin);
      EXPECT_TRUE(Near(id).empty());
      index_.Insert(table_, id);
    };
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = i << 23;
      add(small, begin);
      add(large, begin + 64);
      add(tile, begin + (2 << 20));
      add(square, begin + (3 << 20) + 2048);
    }
    return static_cast<double>(index_.TakeSteps()) / static_cast<double>(count);
  };
  const double few = work(100), many = work(20'000);
  EXPECT_LT(many, 2 * few) << few;
  EXPECT_LT(many, 1000);
}

// Random regions, with more sizes and strides than there are groups and frames.
TEST_F(RegionIndexTest, FindsAllThatOverlap) {
  std::mt19937 random(5);
  const auto below = [&random](int64_t limit) { return static_cast<int64_t>(random() % limit); };
  for (int round = 0; round < 6; ++round) {
    table_ = {};
    index_ = {};
    std::vector<uint32_t> inserted;
    const int64_t space = int64_t{1} << (8 + 6 * round);
    for (int i = 0; i < 600; ++i) {
      std::vector<int64_t> shape, strides;
      for (int64_t dims = 1 + below(3); dims > 0; --dims) {
        shape.push_back(1 + below(shape.empty() ? 60 : 12));
        strides.push_back(below(2) == 0 ? int64_t{1} << below(20) : 1 + below(1000));
      }
      const uint32_t id = AddRegion(AddFootprint(shape, strides), below(space));
      if (i % 2 == 0) {
        index_.Insert(table_, id, i % 10 == 0);
        inserted.push_back(id);
      }
      if (i % 5 == 0) Near(static_cast<uint32_t>(below(static_cast<int64_t>(id) + 1)));
      if (i % 7 == 0) {
        const size_t at = static_cast<size_t>(below(static_cast<int64_t>(inserted.size())));
        index_.Remove(table_, inserted[at]);
        inserted.erase(inserted.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    EXPECT_GT(CheckAll(inserted), 0u);
    EXPECT_EQ(index_.size(), inserted.size());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace pto::engine

#include "runtime/graph/access_map.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AccessMapTest : public ::testing::Test {
 protected:
  uint32_t Add(uint32_t space, uint32_t dtype, std::vector<int64_t> shape,
               std::vector<int64_t> strides, int64_t begin) {
    return map_.AddRegion(space, map_.AddFootprint(MakeLayout(dtype, shape, strides).value()),
                          begin);
  }
  uint32_t Range(int64_t begin, int64_t size, uint32_t space = 0) {
    return Add(space, PTO_U8, {size}, {}, begin);
  }
  std::vector<uint32_t> Read(uint32_t owner, uint32_t region) {
    std::vector<uint32_t> before;
    map_.Read(owner, region, before);
    return Sorted(before);
  }
  std::vector<uint32_t> Write(uint32_t owner, uint32_t region) {
    std::vector<uint32_t> before;
    map_.Write(owner, region, before);
    return Sorted(before);
  }
  static std::vector<uint32_t> Sorted(std::vector<uint32_t> owners) {
    std::sort(owners.begin(), owners.end());
    return owners;
  }

  AccessMap map_;
  uint32_t next_ = 0;
};

TEST_F(AccessMapTest, ReadsAndWritesOfOneRegion) {
  const uint32_t a = Range(0, 10);
  EXPECT_THAT(Read(0, a), IsEmpty());
  EXPECT_THAT(Write(1, a), ElementsAre(0));
  EXPECT_THAT(Write(2, a), ElementsAre(1));
  EXPECT_THAT(Read(3, a), ElementsAre(2));
  EXPECT_THAT(Read(4, a), ElementsAre(2));
  EXPECT_THAT(Read(5, a), ElementsAre(2));
  // The write of 2 precedes these reads.
  EXPECT_THAT(Write(6, a), ElementsAre(3, 4, 5));
  EXPECT_THAT(Read(7, a), ElementsAre(6));
  EXPECT_EQ(map_.live_regions(), 1u);
  EXPECT_EQ(map_.live_readers(), 1u);
}

TEST_F(AccessMapTest, RegionsThatOverlap) {
  const uint32_t a = Range(0, 10), b = Range(5, 10), c = Range(12, 10);
  EXPECT_THAT(Write(0, a), IsEmpty());
  EXPECT_THAT(Write(1, c), IsEmpty());
  EXPECT_THAT(Read(2, b), ElementsAre(0, 1));
  EXPECT_THAT(Write(3, a), ElementsAre(0, 2));
  EXPECT_THAT(Write(4, a), ElementsAre(3));
  EXPECT_THAT(Write(5, b), ElementsAre(1, 2, 4));
  EXPECT_THAT(Read(6, c), ElementsAre(1, 5));
}

TEST_F(AccessMapTest, SpacesAreApart) {
  const uint32_t a = Range(0, 10, 0), b = Range(0, 10, 7);
  EXPECT_THAT(Write(0, a), IsEmpty());
  EXPECT_THAT(Write(1, b), IsEmpty());
}

TEST_F(AccessMapTest, AnEmptyRegionIsNoAccess) {
  const uint32_t none = Add(0, PTO_F32, {3, 0}, {}, 4), all = Range(0, 100);
  EXPECT_THAT(Write(0, none), IsEmpty());
  EXPECT_THAT(Write(1, all), IsEmpty());
  EXPECT_THAT(Write(2, none), IsEmpty());
  EXPECT_EQ(map_.live_regions(), 1u);
}

TEST_F(AccessMapTest, TypesAreComparedByBytes) {
  const uint32_t floats = Add(0, PTO_F32, {4}, {}, 0);
  const uint32_t halves = Add(0, PTO_F16, {8}, {}, 0);
  const uint32_t last = Add(0, PTO_U8, {1}, {}, 15);
  EXPECT_THAT(Write(0, floats), IsEmpty());
  EXPECT_THAT(Write(1, halves), ElementsAre(0));
  EXPECT_THAT(Write(2, last), ElementsAre(1));
  EXPECT_THAT(Read(3, floats), ElementsAre(1, 2));
}

TEST_F(AccessMapTest, AnOwnerDoesNotWaitForItself) {
  const uint32_t a = Range(0, 10), b = Range(5, 10);
  Write(0, a);
  EXPECT_THAT(Read(1, a), ElementsAre(0));
  // Task 1 already waits for 0, because it reads what 0 wrote.
  EXPECT_THAT(Write(1, b), IsEmpty());
  EXPECT_THAT(Write(1, a), IsEmpty());
  EXPECT_THAT(Read(1, b), IsEmpty());
  EXPECT_THAT(Write(2, a), ElementsAre(1));
}

// Task 0 writes two overlapping regions. A later access to one must be seen by the other.
TEST_F(AccessMapTest, OneOwnerOfTwoRegionsThatOverlap) {
  const uint32_t a = Range(0, 10), b = Range(5, 10);
  Write(0, a);
  Write(0, b);
  EXPECT_THAT(Read(1, b), ElementsAre(0));
  EXPECT_THAT(Write(2, a), ElementsAre(0, 1));
}

TEST_F(AccessMapTest, AWriteThatCoversRetires) {
  const uint32_t all = Range(0, 1000);
  for (uint32_t i = 0; i < 10; ++i) {
    const uint32_t part = Range(i * 100, 50);
    Write(2 * i, part);
    EXPECT_THAT(Read(2 * i + 1, part), ElementsAre(2 * i));
  }
  EXPECT_EQ(map_.live_regions(), 10u);
  EXPECT_EQ(Write(20, all).size(), 10u);
  EXPECT_EQ(map_.live_regions(), 1u);
  EXPECT_EQ(map_.live_readers(), 0u);
  EXPECT_THAT(Write(21, all), ElementsAre(20));
}

TEST_F(AccessMapTest, SameRegionsAreOne) {
  const uint32_t a = Add(0, PTO_F32, {4, 4}, {8, 1}, 0);
  const uint32_t b = Add(0, PTO_F32, {4, 4}, {8, 1}, 0);
  const uint32_t c = Add(0, PTO_F16, {8, 4}, {1, 16}, 0);
  EXPECT_THAT(Write(0, a), IsEmpty());
  EXPECT_THAT(Read(1, b), ElementsAre(0));
  EXPECT_THAT(Read(2, c), ElementsAre(0));
  EXPECT_THAT(Write(3, b), ElementsAre(1, 2));
  EXPECT_EQ(map_.live_regions(), 1u);
  const uint64_t compared = map_.compared();
  for (uint32_t i = 4; i < 100; ++i) {
    EXPECT_THAT(Write(i, i % 2 == 0 ? a : c), ElementsAre(i - 1));
  }
  EXPECT_EQ(map_.compared(), compared);
}

// A tile that was written later does not wait for the older write of everything.
TEST_F(AccessMapTest, AnOlderWriteOfAllIsNamedOnce) {
  const uint32_t all = Range(0, 1000), tile = Range(100, 10);
  Write(0, all);
  EXPECT_THAT(Write(1, tile), ElementsAre(0));
  EXPECT_THAT(Read(2, tile), ElementsAre(1));
  EXPECT_THAT(Write(3, tile), ElementsAre(2));
  EXPECT_THAT(Read(4, all), ElementsAre(0, 3));
  EXPECT_THAT(Write(5, tile), ElementsAre(3, 4));
}

TEST_F(AccessMapTest, TilesSideBySideAreNotCompared) {
  constexpr int64_t kSide = 100;
  std::vector<uint32_t> tiles;
  for (int64_t i = 0; i < kSide * kSide; ++i) {
    tiles.push_back(Add(0, PTO_F32, {16, 16}, {kSide * 16, 1},
                        4 * (i / kSide * 16 * kSide * 16 + i % kSide * 16)));
  }
  // Column tiles: all their address ranges overlap.
  for (int64_t i = 0; i < 10'000; ++i) {
    tiles.push_back(Add(1, PTO_F32, {64, 4}, {40'000, 1}, i * 16));
  }
  uint32_t task = 0;
  for (int round = 0; round < 3; ++round) {
    for (const uint32_t tile : tiles) {
      EXPECT_EQ(Read(task, tile).size(), round == 0 ? 0u : 1u);
      EXPECT_EQ(Write(task, tile).size(), 0u);
      ++task;
    }
  }
  // Only the first two regions of each space are compared.
  EXPECT_EQ(map_.compared(), 2u);
  EXPECT_LT(map_.budget().spent(), 2 * tiles.size());
  EXPECT_EQ(map_.live_regions(), tiles.size());
}

// New regions that equal old ones, alternating with the old ones: however long the chains of
// representatives get, each hop is taken only a few times.
TEST_F(AccessMapTest, LongChainsOfRegionsThatAreTheSame) {
  const uint32_t all = Range(0, 1000);
  const auto work = [&](uint32_t rounds) {
    const uint64_t before = map_.budget().spent();
    const uint32_t first = Range(0, 10);
    uint32_t task = 4 * rounds;
    for (uint32_t i = 0; i < rounds; ++i) {
      // Drops the state of all other regions, so that the next one is its own representative.
      Write(++task, all);
      const uint32_t last = task;
      EXPECT_THAT(Write(++task, Range(0, 10)), ElementsAre(last));
      EXPECT_THAT(Write(++task, first), ElementsAre(last + 1));
    }
    return static_cast<double>(map_.budget().spent() - before) / rounds;
  };
  const double few = work(100), many = work(30'000);
  EXPECT_LT(many, 2 * few) << few;
  EXPECT_EQ(map_.live_regions(), 2u);
}

// Overlapping regions that are only read are not compared with each other; a write is compared with
// all.
TEST_F(AccessMapTest, ManyReadsThatOverlap) {
  const auto work = [this](uint32_t space, int64_t count) {
    const uint64_t before = map_.budget().spent();
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_THAT(Read(next_++, Range(0, 1000 + i * (20'000 / count), space)), IsEmpty());
    }
    return static_cast<double>(map_.budget().spent() - before) / static_cast<double>(count);
  };
  const double few = work(0, 500), many = work(1, 20'000);
  EXPECT_LT(many, 2 * few) << few;
  EXPECT_LT(many, 200);
  // Now each task writes, and waits for all earlier accesses.
  const uint32_t first = next_;
  const uint32_t part = Range(500, 10, 1), other = Range(20'990, 10, 1);
  EXPECT_EQ(Write(next_++, part).size(), 20'000u);
  EXPECT_EQ(Read(next_++, other).size(), 0u);
  EXPECT_EQ(Write(next_++, Range(0, 20'995, 1)).size(), 20'000u - 15'000u + 2u + 15'000u);
  EXPECT_THAT(Read(next_++, part), ElementsAre(first + 2));
}

TEST_F(AccessMapTest, TheBudgetEndsTheWork) {
  AccessMap map(WorkBudget(nullptr, 1000));
  const uint32_t footprint = map.AddFootprint(MakeLayout(PTO_U8, {100}, {}).value());
  std::vector<uint32_t> before;
  uint32_t task = 0;
  // Each region overlaps all earlier ones.
  while (map.budget().ok() && task < 100) {
    map.Write(task, map.AddRegion(0, footprint, task), before);
    ++task;
  }
  EXPECT_EQ(map.budget().state(), WorkBudget::State::kSpent);
  EXPECT_EQ(map.stopped_at(), task - 1);
  EXPECT_GT(task, 10u);
  EXPECT_LT(task, 50u);
  // Further accesses do nothing.
  const size_t found = before.size();
  map.Write(task, map.AddRegion(0, footprint, task), before);
  EXPECT_EQ(before.size(), found);
}

// The work depends on the retired accesses, not on how often everything was read before.
TEST_F(AccessMapTest, ReadsOfAllAreComparedOnce) {
  const uint32_t all = Range(0, 40'000);
  std::vector<uint32_t> tiles;
  for (int64_t i = 0; i < 10'000; ++i) tiles.push_back(Range(i * 4, 4));
  uint32_t task = 0;
  for (const uint32_t tile : tiles) Read(task++, tile);
  for (int i = 0; i < 10'000; ++i) EXPECT_THAT(Read(task++, all), IsEmpty());
  for (const uint32_t tile : tiles) EXPECT_THAT(Read(task++, tile), IsEmpty());
  EXPECT_EQ(Write(task++, all).size(), 30'000u);
  EXPECT_LT(map_.compared(), 30'000u);
  EXPECT_EQ(map_.live_regions(), 1u);
  EXPECT_EQ(map_.live_readers(), 0u);
}

TEST_F(AccessMapTest, OwnersThatHaveEndedAreNotNamed) {
  const uint32_t a = Range(0, 10), b = Range(5, 10), c = Range(0, 100);
  Write(0, a);
  Read(1, b);
  Read(2, a);
  map_.ForgetBefore(2);
  EXPECT_THAT(Read(3, a), IsEmpty());
  EXPECT_THAT(Write(4, c), ElementsAre(2, 3));
  map_.ForgetBefore(5);
  EXPECT_THAT(Write(5, a), IsEmpty());
  EXPECT_THAT(Write(6, c), ElementsAre(5));
}

// An endless run: the state does not grow with the number of ended tasks.
TEST_F(AccessMapTest, ReadersThatHaveEndedAreDropped) {
  const uint32_t weights = Range(0, 10);
  for (uint32_t i = 0; i < 100'000; ++i) {
    Read(i, weights);
    map_.ForgetBefore(i > 10 ? i - 10 : 0);
  }
  EXPECT_LT(map_.live_readers(), 5000u);
  EXPECT_LT(map_.bytes(), 200'000u);
  EXPECT_EQ(Write(100'000, weights).size(), 11u);
}

}  // namespace
}  // namespace pto::engine

#include "runtime/graph/cell_table.h"

#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::engine {
namespace {

TEST(CellTableTest, CellsAreZeroAtFirst) {
  CellTable table;
  EXPECT_EQ(table.Get(0), 0u);
  EXPECT_EQ(table.Get(~uint64_t{0}), 0u);
  table.At(3) = 7;
  EXPECT_EQ(table.Get(3), 7u);
  EXPECT_EQ(table.Get(2), 0u);
  EXPECT_EQ(table.Get(99), 0u);
  EXPECT_EQ(table.At(99), 0u);
  EXPECT_EQ(table.Get(3), 7u);
}

TEST(CellTableTest, LikeAMap) {
  std::mt19937_64 random(3);
  CellTable table;
  std::unordered_map<uint64_t, uint32_t> map;
  for (uint32_t i = 1; i < 20'000; ++i) {
    // Some close together, some far apart.
    const uint64_t cell = random() >> (random() % 2 == 0 ? 0 : 52);
    table.At(cell) = map[cell] = i;
    const uint64_t other = random() >> 52;
    const auto found = map.find(other);
    ASSERT_EQ(table.Get(other), found == map.end() ? 0 : found->second);
  }
  for (const auto& [cell, value] : map) ASSERT_EQ(table.Get(cell), value);
}

TEST(CellTableTest, VisitsAllThatAreNotZero) {
  CellTable table;
  table.At(5) = 1;
  table.At(6) = 2;
  table.At(5'000) = 3;
  table.At(6) = 0;
  std::vector<uint32_t> visited;
  table.ForEach([&visited](uint32_t number) { visited.push_back(number); });
  EXPECT_THAT(visited, ::testing::UnorderedElementsAre(1, 3));
}

TEST(CellTableTest, NeighboursShareMemory) {
  CellTable table;
  for (uint64_t i = 0; i < 100'000; ++i) table.At((uint64_t{1} << 50) + i) = 1;
  EXPECT_LT(table.bytes(), 700'000u);
}

}  // namespace
}  // namespace pto::engine

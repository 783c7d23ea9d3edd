#include "runtime/graph/cell_tree.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace pto::engine {
namespace {

using Cell = CellTree::Cell;

std::vector<Cell> Found(const CellTree& tree, const Cell& first, const Cell& last) {
  std::vector<Cell> found;
  tree.ForEach(first, last, [&found](const Cell& cell) { found.push_back(cell); });
  return found;
}

TEST(CellTreeTest, LikeASet) {
  std::mt19937_64 random(5);
  const auto below = [&random](uint64_t limit) { return random() % limit; };
  for (uint32_t dims = 1; dims <= CellTree::kMaxDims; ++dims) {
    Cell cells{};
    for (uint32_t i = 0; i < dims; ++i) cells[i] = 1 + below(i == 0 ? uint64_t{1} << 30 : 9);
    CellTree tree(cells, dims);
    std::set<Cell> set;
    for (int i = 0; i < 1000; ++i) {
      Cell cell{}, first{}, last{};
      for (uint32_t d = 0; d < dims; ++d) {
        // Some close together.
        const uint64_t limit = below(2) == 0 ? cells[d] : std::min<uint64_t>(cells[d], 100);
        cell[d] = below(limit);
        first[d] = below(limit);
        last[d] = first[d] + below(cells[d] - first[d]);
      }
      if (below(3) == 0 && !set.empty()) {
        const Cell gone = *set.begin();
        set.erase(gone);
        tree.Remove(gone);
      } else {
        set.insert(cell);
        tree.Add(cell);
      }
      std::vector<Cell> wanted;
      for (const Cell& one : set) {
        bool inside = true;
        for (uint32_t d = 0; d < dims; ++d) inside &= one[d] >= first[d] && one[d] <= last[d];
        if (inside) wanted.push_back(one);
      }
      std::vector<Cell> found = Found(tree, first, last);
      for (Cell& one : found) {
        for (uint32_t d = dims; d < CellTree::kMaxDims; ++d) one[d] = 0;
      }
      std::sort(found.begin(), found.end());
      ASSERT_TRUE(found == wanted) << dims << ' ' << i;
    }
  }
}

TEST(CellTreeTest, CellsMayBeRemovedWhileTheyAreVisited) {
  CellTree tree({1'000'000}, 1);
  for (uint64_t i = 0; i < 1000; ++i) tree.Add({i * i});
  tree.ForEach({0}, {999'999}, [&tree](const Cell& cell) {
    if (cell[0] % 2 == 0) tree.Remove(cell);
  });
  EXPECT_EQ(Found(tree, {0}, {999'999}).size(), 500u);
}

TEST(CellTreeTest, WhatIsEmptyCostsNothing) {
  CellTree tree({uint64_t{1} << 50}, 1);
  for (uint64_t i = 0; i < 1000; ++i) tree.Add({i << 40});
  const auto steps = [&tree](uint64_t first, uint64_t last) {
    return tree.ForEach({first}, {last}, [](const Cell&) {});
  };
  EXPECT_LT(steps(0, (uint64_t{1} << 50) - 1), 20'000u);
  EXPECT_LT(steps(1, (uint64_t{1} << 40) - 1), 200u);
  EXPECT_LT(steps((uint64_t{7} << 40) + 1, (uint64_t{7} << 40) + 4096), 10u);
}

}  // namespace
}  // namespace pto::engine

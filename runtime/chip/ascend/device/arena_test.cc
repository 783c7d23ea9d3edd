#include "runtime/chip/ascend/device/arena.h"

#include <gtest/gtest.h>

#include <set>

namespace pto::ascend {
namespace {

TEST(ArenaTest, PartsDoNotOverlapAndComeBack) {
  Arena arena(16 * Arena::kSmallest);
  std::set<uint64_t> offsets;
  for (int i = 0; i < 8; ++i) offsets.insert(*arena.Take(2 * Arena::kSmallest - 1));
  EXPECT_EQ(offsets.size(), 8u);
  EXPECT_EQ(*offsets.rbegin(), 14 * Arena::kSmallest);
  EXPECT_FALSE(arena.Take(1).has_value());
  arena.Give(0, 2 * Arena::kSmallest - 1);
  EXPECT_EQ(arena.Take(2 * Arena::kSmallest), 0u);
  arena.Clear();
  EXPECT_TRUE(arena.Take(16 * Arena::kSmallest).has_value());
}

TEST(ArenaTest, WhatIsTooLargeIsRefused) {
  Arena arena(4 * Arena::kSmallest);
  EXPECT_FALSE(arena.Take(4 * Arena::kSmallest + 1).has_value());
  EXPECT_TRUE(arena.Take(3 * Arena::kSmallest).has_value());
}

}  // namespace
}  // namespace pto::ascend

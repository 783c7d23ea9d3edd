#include "runtime/engine/signal/wait_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace pto::engine {
namespace {

using ::testing::ElementsAre;

using Key = WaitTree::Key;

class WaitTreeTest : public ::testing::Test {
 protected:
  WaitTree::Node& Add(const Key& key) {
    nodes_.push_back(std::make_unique<WaitTree::Node>());
    tree_.Insert(*nodes_.back(), key);
    return *nodes_.back();
  }
  std::vector<Key> Extract(const Key& begin, const Key& end) {
    std::vector<Key> keys;
    tree_.Extract(begin, end, [&](WaitTree::Node& node) { keys.push_back(node.key()); });
    return keys;
  }

  std::vector<std::unique_ptr<WaitTree::Node>> nodes_;
  WaitTree tree_;
};

TEST_F(WaitTreeTest, FindsAndTakesInOrder) {
  EXPECT_EQ(tree_.LowerBound({}), nullptr);
  const Key a{1, -5, 3}, b{1, -5, 4}, c{1, 7, 1}, d{2, -9, 2};
  for (const Key& key : {c, a, d, b}) Add(key);
  EXPECT_EQ(tree_.LowerBound({1, -5, 4})->key(), b);
  EXPECT_EQ(tree_.LowerBound({1, -4, 0})->key(), c);
  EXPECT_EQ(tree_.LowerBound({3, 0, 0}), nullptr);
  EXPECT_THAT(Extract({1, -5, 4}, {2, -9, 2}), ElementsAre(b, c));
  EXPECT_THAT(Extract({0, 0, 0}, {9, 0, 0}), ElementsAre(a, d));
  EXPECT_EQ(tree_.LowerBound({}), nullptr);
}

TEST_F(WaitTreeTest, DoesWhatASetDoes) {
  std::mt19937_64 random(1);
  std::set<Key> model;
  std::vector<WaitTree::Node*> present;
  const auto any_key = [&](uint64_t order) {
    return Key{random() % 4, static_cast<int64_t>(random() % 50), order};
  };
  for (uint64_t i = 0; i < 20'000; ++i) {
    switch (random() % 8) {
      case 0:
      case 1:
        if (present.empty()) break;
        std::swap(present[random() % present.size()], present.back());
        model.erase(present.back()->key());
        tree_.Remove(*present.back());
        present.pop_back();
        break;
      case 2: {
        Key begin = any_key(0), end = any_key(0);
        if (end < begin) std::swap(begin, end);
        // Remove few at a time, so that the tree grows.
        end = std::min(end, Key{begin.word, begin.threshold + 3, 0});
        const auto first = model.lower_bound(begin), last = model.lower_bound(end);
        const std::vector<Key> expected(first, last);
        ASSERT_EQ(Extract(begin, end), expected);
        model.erase(first, last);
        present.erase(std::remove_if(present.begin(), present.end(),
                                     [&](const WaitTree::Node* node) {
                                       return node->key() >= begin && node->key() < end;
                                     }),
                      present.end());
        break;
      }
      case 3: {
        const Key key = any_key(random() % (i + 1));
        const auto found = model.lower_bound(key);
        WaitTree::Node* const node = tree_.LowerBound(key);
        ASSERT_EQ(node == nullptr, found == model.end());
        if (node != nullptr) {
          ASSERT_EQ(node->key(), *found);
        }
        break;
      }
      default:
        present.push_back(&Add(any_key(i + 1)));
        model.insert(present.back()->key());
    }
  }
  EXPECT_GT(model.size(), 100u);
  EXPECT_EQ(Extract({0, 0, 0}, {4, 0, 0}), std::vector<Key>(model.begin(), model.end()));
}

// In any order of insertion, and although all keys have the same word.
TEST_F(WaitTreeTest, WorkGrowsWithTheLogarithm) {
  constexpr uint64_t kNodes = 100'000;
  const uint64_t most = 6 * std::bit_width(kNodes);
  for (const int64_t direction : {1, -1, 0}) {
    uint64_t before = tree_.steps();
    for (uint64_t i = 1; i <= kNodes; ++i) Add({8, direction * static_cast<int64_t>(i), i});
    EXPECT_LT(tree_.steps() - before, kNodes * most) << direction;
    before = tree_.steps();
    uint64_t taken = 0;
    for (int64_t i = -int64_t{kNodes}; i <= int64_t{kNodes}; ++i) {
      taken += Extract({8, i, 0}, {8, i, UINT64_MAX}).size();
    }
    EXPECT_EQ(taken, kNodes);
    EXPECT_LT(tree_.steps() - before, 2 * kNodes * most) << direction;
  }
}

}  // namespace
}  // namespace pto::engine

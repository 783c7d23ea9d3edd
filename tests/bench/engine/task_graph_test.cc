#include "tests/bench/engine/task_graph.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TaskGraphTest, Chain) {
  const TaskGraph graph = TaskGraph::Make(Shape::kChain, 100);
  ASSERT_EQ(graph.size(), 100);
  EXPECT_EQ(graph.edges(), 99);
  EXPECT_THAT(graph.before(0), IsEmpty());
  EXPECT_THAT(graph.before(99), ElementsAre(98));
}

TEST(TaskGraphTest, Independent) {
  const TaskGraph graph = TaskGraph::Make(Shape::kIndependent, 100);
  ASSERT_EQ(graph.size(), 100);
  EXPECT_EQ(graph.edges(), 0);
}

TEST(TaskGraphTest, Tree) {
  const TaskGraph graph = TaskGraph::Make(Shape::kTree, 7);
  EXPECT_EQ(graph.edges(), 6);
  EXPECT_THAT(graph.before(1), ElementsAre(0));
  EXPECT_THAT(graph.before(2), ElementsAre(0));
  EXPECT_THAT(graph.before(6), ElementsAre(2));
}

TEST(TaskGraphTest, WavefrontIsASquare) {
  const TaskGraph graph = TaskGraph::Make(Shape::kWavefront, 10);
  ASSERT_EQ(graph.size(), 9);
  EXPECT_EQ(graph.edges(), 12);
  EXPECT_THAT(graph.before(0), IsEmpty());
  EXPECT_THAT(graph.before(2), ElementsAre(1));
  EXPECT_THAT(graph.before(3), ElementsAre(0));
  EXPECT_THAT(graph.before(4), ElementsAre(1, 3));
}

TEST(TaskGraphTest, RandomHasFourOfThoseBeforeEachOnce) {
  const TaskGraph graph = TaskGraph::Make(Shape::kRandom, 3000);
  ASSERT_EQ(graph.size(), 3000);
  uint32_t furthest = 0;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const std::set<uint32_t> distinct(graph.before(i).begin(), graph.before(i).end());
    EXPECT_EQ(distinct.size(), graph.before(i).size()) << i;
    EXPECT_EQ(distinct.size(), std::min(i, TaskGraph::kMaxDegree)) << i;
    for (const uint32_t before : distinct) {
      EXPECT_LT(before, i);
      furthest = std::max(furthest, i - before);
    }
  }
  EXPECT_LE(furthest, TaskGraph::kRandomReach);
  EXPECT_GT(furthest, TaskGraph::kRandomReach / 2);
  const TaskGraph again = TaskGraph::Make(Shape::kRandom, 3000);
  EXPECT_EQ(graph.before(2999), again.before(2999));
}

TEST(ShapeTest, HasOneName) {
  for (const Shape shape : kShapes) EXPECT_EQ(ParseShape(ShapeName(shape)), shape);
  EXPECT_EQ(ParseShape("circle"), absl::nullopt);
}

}  // namespace
}  // namespace pto::bench

#include "tests/bench/engine/selection.h"

#include "gtest/gtest.h"

namespace pto::bench {
namespace {

TEST(SelectionTest, NothingMeansEverything) {
  for (const char* only : {"", "all"}) {
    const Selection selection = Selection::Parse(only).value();
    EXPECT_TRUE(selection.any_of({"starpu"}));
    EXPECT_TRUE(selection.all_cases());
    for (const Shape shape : kShapes) EXPECT_TRUE(selection.wants(shape));
  }
}

TEST(SelectionTest, OnePeerOfOneShape) {
  const Selection selection = Selection::Parse("openmp/tree").value();
  EXPECT_TRUE(selection.any_of({"starpu", "openmp"}));
  EXPECT_FALSE(selection.any_of({"starpu", "onetbb"}));
  EXPECT_FALSE(selection.all_cases());
  EXPECT_TRUE(selection.wants(Shape::kTree));
  EXPECT_FALSE(selection.wants(Shape::kChain));
}

TEST(SelectionTest, RefusesWhatIsNotThere) {
  for (const char* only : {"cilk", "/tree", "onetbb/", "onetbb/circle", "onetbb/tree/1"}) {
    EXPECT_FALSE(Selection::Parse(only).ok()) << only;
  }
}

}  // namespace
}  // namespace pto::bench

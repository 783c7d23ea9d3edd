#include "client/internal/graph_structure.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::internal {
namespace {

using ::testing::ElementsAre;

TEST(GraphStructureTest, FillsWhatPagesLeaveOut) {
  v1::GraphStructure first, second, all;
  first.add_kernels("a");
  first.add_kernels("b");
  for (int i = 0; i < 2; ++i) {
    first.add_kernel(0);
    first.add_chip(3);
    first.add_next_count(1);
    first.add_next_ahead(1);
  }
  second.add_kernels("a");
  second.add_kernels("b");
  second.set_first_task(2);
  second.add_kernel(1);
  second.add_name("last");
  second.add_chip(1);
  second.add_chip_count(2);
  second.add_member_chip(1);
  second.add_member_chip(4);
  second.add_block_num(7);
  second.add_predicated(true);
  second.add_next_count(0);
  AppendStructure(first, &all);
  AppendStructure(second, &all);
  EXPECT_EQ(all.first_task(), 0u);
  EXPECT_THAT(all.kernels(), ElementsAre("a", "b"));
  EXPECT_THAT(all.kernel(), ElementsAre(0, 0, 1));
  EXPECT_THAT(all.name(), ElementsAre("", "", "last"));
  EXPECT_THAT(all.chip(), ElementsAre(3, 3, 1));
  EXPECT_THAT(all.chip_count(), ElementsAre(1, 1, 2));
  EXPECT_THAT(all.member_chip(), ElementsAre(1, 4));
  EXPECT_THAT(all.block_num(), ElementsAre(1, 1, 7));
  EXPECT_THAT(all.predicated(), ElementsAre(false, false, true));
  EXPECT_THAT(all.next_count(), ElementsAre(1, 1, 0));
  EXPECT_THAT(all.next_ahead(), ElementsAre(1, 1));
}

// Pages of an open run have the kernels of the segments that are available at that time.
TEST(GraphStructureTest, PagesWithOtherKernels) {
  v1::GraphStructure first, second, all;
  first.set_first_task(40);
  first.add_kernels("a");
  first.add_kernels("b");
  first.add_kernel(1);
  second.set_first_task(41);
  second.add_kernels("c");
  second.add_kernels("b");
  second.add_kernel(0);
  second.add_kernel(1);
  AppendStructure(first, &all);
  AppendStructure(second, &all);
  EXPECT_EQ(all.first_task(), 40u);
  EXPECT_THAT(all.kernels(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(all.kernel(), ElementsAre(1, 2, 1));
}

}  // namespace
}  // namespace pto::internal

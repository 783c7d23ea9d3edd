#include "runtime/graph/writer_chains.h"

#include <gtest/gtest.h>

namespace pto::engine {
namespace {

TEST(WriterChainsTest, WhoWaitsForTheNewestWaitsForAll) {
  WriterChains chains;
  for (uint32_t region = 0; region < 4; ++region) {
    chains.Begin();
    for (uint32_t other = 0; other < region; ++other) chains.Meet(other, other + 1);
    if (region > 0) {
      ASSERT_EQ(chains.newest().size(), 1u);
      EXPECT_EQ(chains.newest()[0].region, region - 1);
      chains.Wait(chains.newest()[0]);
      for (uint32_t other = 0; other < region; ++other) {
        EXPECT_EQ(chains.IsImplied(other, other + 1), other != region - 1);
      }
    }
    chains.Write(region, region + 1);
  }
}

TEST(WriterChainsTest, NothingIsImpliedByOneThatIsNotWaitedFor) {
  WriterChains chains;
  chains.Write(0, 1);
  chains.Begin();
  chains.Meet(0, 1);
  chains.Wait(chains.newest()[0]);
  chains.Write(1, 2);
  chains.Begin();
  chains.Meet(0, 1);
  chains.Meet(1, 2);
  EXPECT_FALSE(chains.IsImplied(0, 1));
  // It begins a new chain.
  chains.Write(2, 3);
  chains.Begin();
  chains.Meet(1, 2);
  chains.Meet(2, 3);
  EXPECT_EQ(chains.newest().size(), 2u);
}

TEST(WriterChainsTest, AnotherWriterHasAnotherPlace) {
  WriterChains chains;
  chains.Write(0, 1);
  chains.Begin();
  chains.Meet(0, 1);
  chains.Wait(chains.newest()[0]);
  chains.Write(1, 2);
  chains.Begin();
  chains.Meet(0, 7);  // written since, but not recorded
  chains.Meet(1, 2);
  chains.Wait(chains.newest()[0]);
  EXPECT_FALSE(chains.IsImplied(0, 7));
  EXPECT_TRUE(chains.IsImplied(0, 1));
}

// A chain that another writer has extended is not extended from its middle.
TEST(WriterChainsTest, AChainHasNoBranches) {
  WriterChains chains;
  chains.Write(0, 1);
  for (uint32_t region : {1u, 2u}) {
    chains.Begin();
    chains.Meet(0, 1);
    chains.Wait(chains.newest()[0]);
    chains.Write(region, region + 1);
  }
  chains.Begin();
  chains.Meet(1, 2);
  chains.Meet(2, 3);
  ASSERT_EQ(chains.newest().size(), 2u);
  chains.Wait(chains.newest()[1]);
  EXPECT_FALSE(chains.IsImplied(1, 2));
}

}  // namespace
}  // namespace pto::engine

#include "runtime/engine/queue/reservation.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

class ReservationTest : public ::testing::Test {
 protected:
  ReservationTest() {
    RunSpec spec;
    spec.image = engine::testing::MakeTestGraph({{}}, {1}, nullptr);
    run_ = std::make_unique<pto::engine::Run>(std::move(spec), 0);
  }
  Reservation Of(pto_core kind, uint32_t blocks) { return {*run_, 0, 0, 1, kind, blocks}; }

  std::unique_ptr<pto::engine::Run> run_;
  const std::vector<CoreView> views_{27};
  const LongHolds holds_{9, views_};
};

TEST_F(ReservationTest, KeepsWhatItHasUntilItHasAll) {
  CoreMap cores(2);
  const int32_t busy = cores.Acquire(PTO_AIV);
  Reservation gang = Of(PTO_AIV, 4);
  EXPECT_FALSE(gang.Collect(cores, holds_));
  EXPECT_EQ(gang.held(), 3u);
  EXPECT_EQ(cores.Acquire(PTO_AIV), -1);
  cores.Release(PTO_AIV, busy);
  EXPECT_TRUE(gang.Collect(cores, holds_));
  EXPECT_EQ(gang.cores().size(), 4u);
  gang.GiveBack(cores);
  EXPECT_FALSE(gang.complete());
  EXPECT_EQ(cores.busy(), 0u);
}

// A gang of clusters gets them as soon as enough are free, and holds no more clusters than it
// needs, whichever single cores are busy.
TEST_F(ReservationTest, CollectsClustersAmongSingleCores) {
  constexpr uint32_t kClusters = 9;
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    CoreMap cores(kClusters);
    std::vector<std::pair<pto_core, int32_t>> busy;
    for (int i = 0; i < 40; ++i) {
      const pto_core kind = random() % 3 == 0 ? PTO_AIC : PTO_AIV;
      const int32_t core = cores.Acquire(kind);
      if (core >= 0) busy.emplace_back(kind, core);
    }
    const uint32_t want = 1 + random() % kClusters;
    Reservation gang = Of(PTO_MIX, want);
    while (!gang.Collect(cores, holds_)) {
      ASSERT_LE(gang.held(), 3 * want);
      ASSERT_FALSE(busy.empty());
      std::swap(busy[random() % busy.size()], busy.back());
      cores.Release(busy.back().first, busy.back().second);
      busy.pop_back();
    }
    EXPECT_EQ(gang.held(), 3 * want);
    EXPECT_EQ(cores.busy(), 3 * want + busy.size());
    for (const int32_t cluster : gang.cores()) cores.Release(PTO_MIX, cluster);
    EXPECT_EQ(cores.busy(), busy.size());
  }
}

}  // namespace
}  // namespace pto::engine

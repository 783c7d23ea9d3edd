#include "runtime/engine/queue/long_holds.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

constexpr int64_t kMs = 1'000'000;

// A chip of four clusters: cube cores 0 to 3, vector cores 4 to 11.
class LongHoldsTest : public ::testing::Test {
 protected:
  LongHoldsTest() {
    RunSpec spec;
    spec.image = engine::testing::MakeTestGraph({{}}, {1}, nullptr);
    run_ = std::make_unique<pto::engine::Run>(std::move(spec), 0);
  }
  void Take(int32_t core, pto_core kind, int64_t now = 0) {
    views_[static_cast<size_t>(core)].Take(*run_, 0, kind);
    if (holds_.active()) holds_.OnTake(core, now);
  }
  bool Release(int32_t core, pto_core kind, int64_t now = 0) {
    const bool was_long = holds_.active() && holds_.OnRelease(kind, core, now);
    views_[static_cast<size_t>(core)].Release();
    return was_long;
  }
  void SetWait(int32_t core, CoreView::Wait wait) { views_[static_cast<size_t>(core)].wait = wait; }

  std::unique_ptr<pto::engine::Run> run_;
  std::vector<CoreView> views_{12};
  LongHolds holds_{4, views_};
};

TEST_F(LongHoldsTest, BlocksThatWaitAreLongHolds) {
  Take(4, PTO_AIV);
  Take(5, PTO_AIV);
  SetWait(5, CoreView::kWaits);
  holds_.BeginWatch(0);
  holds_.NoteOld();
  // Blocks that take a core after the note are not marked.
  Take(6, PTO_AIV);
  SetWait(6, CoreView::kWaits);
  holds_.MarkWaiting();
  EXPECT_TRUE(holds_.LeavesRoomFor(PTO_AIV, 7));
  EXPECT_FALSE(holds_.LeavesRoomFor(PTO_AIV, 8));
  EXPECT_TRUE(holds_.LeavesRoomFor(PTO_AIC, 4));
  EXPECT_FALSE(holds_.LeavesRoomFor(PTO_MIX, 4));
  EXPECT_TRUE(holds_.HasPartOf(0));
  EXPECT_FALSE(holds_.HasPartOf(1));
  EXPECT_TRUE(holds_.WaitsIn(1));
  EXPECT_FALSE(Release(4, PTO_AIV));
  EXPECT_TRUE(Release(5, PTO_AIV));
  EXPECT_TRUE(holds_.LeavesRoomFor(PTO_AIV, 8));
}

TEST_F(LongHoldsTest, AClusterIsHeldWhole) {
  Take(2, PTO_MIX);
  holds_.BeginWatch(0);
  holds_.NoteOld();
  holds_.MarkAll();
  EXPECT_FALSE(holds_.LeavesRoomFor(PTO_AIC, 4));
  EXPECT_TRUE(holds_.LeavesRoomFor(PTO_AIV, 6));
  EXPECT_FALSE(holds_.LeavesRoomFor(PTO_AIV, 7));
  EXPECT_TRUE(Release(2, PTO_MIX));
  holds_.EndWatch();
  EXPECT_FALSE(holds_.active());
  EXPECT_TRUE(holds_.LeavesRoomFor(PTO_MIX, 4));
}

TEST_F(LongHoldsTest, OnlyTheBlocksOfOneClusterCanBeMeant) {
  Take(0, PTO_AIC);
  Take(7, PTO_AIV);
  holds_.BeginWatch(0);
  holds_.MarkCluster(1);
  EXPECT_FALSE(holds_.HasPartOf(0));
  EXPECT_TRUE(holds_.HasPartOf(1));
}

TEST_F(LongHoldsTest, PatienceIsAFewTimesAsLongAsBlocksTake) {
  EXPECT_EQ(holds_.patience_ns(), LongHolds::kLeastPatienceNs);
  holds_.BeginWatch(0);
  Take(4, PTO_AIV, 1 * kMs);
  Release(4, PTO_AIV, 51 * kMs);
  EXPECT_EQ(holds_.patience_ns(), 200 * kMs);
  for (int i = 0; i < 100; ++i) holds_.Decay();
  EXPECT_EQ(holds_.patience_ns(), LongHolds::kLeastPatienceNs);
}

TEST_F(LongHoldsTest, WhatWaitedOrTookTooLongSaysNothingOfOthers) {
  Take(4, PTO_AIV);
  holds_.BeginWatch(0);
  holds_.NoteOld();
  Take(5, PTO_AIV, 0);
  SetWait(5, CoreView::kWaited);
  Release(5, PTO_AIV, 500 * kMs);
  holds_.MarkAll();
  EXPECT_TRUE(Release(4, PTO_AIV, 500 * kMs));
  EXPECT_EQ(holds_.patience_ns(), LongHolds::kLeastPatienceNs);
}

}  // namespace
}  // namespace pto::engine

#include "runtime/chip/core_map.h"

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace pto::engine {
namespace {

// A simple model: a flag for each core.
class Model {
 public:
  explicit Model(uint32_t clusters) : n_(clusters), busy_(3 * clusters) {}

  int32_t Acquire(pto_core kind) {
    const uint32_t begin = kind == PTO_AIV ? n_ : 0;
    const uint32_t end = kind == PTO_AIV ? 3 * n_ : n_;
    for (uint32_t core = begin; core < end; ++core) {
      const bool free =
          !busy_[core] && (kind != PTO_MIX || (!busy_[n_ + 2 * core] && !busy_[n_ + 2 * core + 1]));
      if (!free) continue;
      Set(kind, core, true);
      return static_cast<int32_t>(core);
    }
    return -1;
  }
  void Release(pto_core kind, int32_t core) { Set(kind, static_cast<uint32_t>(core), false); }
  uint32_t busy() const {
    uint32_t count = 0;
    for (const bool busy : busy_) count += busy ? 1 : 0;
    return count;
  }

 private:
  void Set(pto_core kind, uint32_t core, bool busy) {
    busy_[core] = busy;
    if (kind == PTO_MIX) busy_[n_ + 2 * core] = busy_[n_ + 2 * core + 1] = busy;
  }

  const uint32_t n_;
  std::vector<bool> busy_;
};

class CoreMapTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(CoreMapTest, AgreesWithTheModel) {
  const uint32_t clusters = GetParam();
  CoreMap map(clusters);
  Model model(clusters);
  std::mt19937 random(clusters);
  std::vector<std::pair<pto_core, int32_t>> held;
  int refused = 0;
  for (int step = 0; step < 50'000; ++step) {
    // Long phases that mostly take and mostly release, to reach both extremes.
    const bool fill = random() % 100 < (step / 1000 % 2 == 0 ? 70u : 30u);
    if (fill || held.empty()) {
      const auto kind = static_cast<pto_core>(PTO_AIC + random() % 3);
      const int32_t core = map.Acquire(kind);
      ASSERT_EQ(core, model.Acquire(kind)) << "step " << step << " kind " << kind;
      if (core >= 0) held.emplace_back(kind, core);
      refused += core < 0 ? 1 : 0;
    } else {
      std::swap(held[random() % held.size()], held.back());
      map.Release(held.back().first, held.back().second);
      model.Release(held.back().first, held.back().second);
      held.pop_back();
    }
    ASSERT_EQ(map.busy(), model.busy());
  }
  EXPECT_GT(refused, 0);
  for (const auto& [kind, core] : held) map.Release(kind, core);
  EXPECT_EQ(map.busy(), 0u);
}

TEST_P(CoreMapTest, GivesOutAllOfAKind) {
  const uint32_t clusters = GetParam();
  for (const pto_core kind : {PTO_AIC, PTO_AIV, PTO_MIX}) {
    CoreMap map(clusters);
    EXPECT_EQ(map.clusters(), clusters);
    EXPECT_EQ(map.Capacity(kind), kind == PTO_AIV ? 2 * clusters : clusters);
    const int32_t first = kind == PTO_AIV ? static_cast<int32_t>(clusters) : 0;
    for (uint32_t i = 0; i < map.Capacity(kind); ++i) {
      ASSERT_EQ(map.Acquire(kind), first + static_cast<int32_t>(i));
    }
    EXPECT_EQ(map.Acquire(kind), -1);
    EXPECT_EQ(map.Acquire(PTO_MIX), -1);
    EXPECT_EQ(map.busy(), map.Capacity(kind) * (kind == PTO_MIX ? 3 : 1));
  }
}

TEST_P(CoreMapTest, AClusterNeedsAllThreeOfItsCores) {
  CoreMap map(GetParam());
  const auto last = static_cast<int32_t>(GetParam() - 1);
  std::vector<int32_t> taken;
  for (int32_t i = 0; i <= last; ++i) taken.push_back(map.Acquire(PTO_MIX));
  map.Release(PTO_MIX, last);
  const int32_t aiv = map.Acquire(PTO_AIV);
  EXPECT_EQ(aiv, static_cast<int32_t>(GetParam()) + 2 * last);
  EXPECT_EQ(map.Acquire(PTO_MIX), -1);
  const int32_t aic = map.Acquire(PTO_AIC);
  EXPECT_EQ(aic, last);
  map.Release(PTO_AIV, aiv);
  EXPECT_EQ(map.Acquire(PTO_MIX), -1);
  map.Release(PTO_AIC, aic);
  EXPECT_EQ(map.Acquire(PTO_MIX), last);
}

TEST_P(CoreMapTest, AClusterCanBeCollectedInParts) {
  CoreMap map(GetParam());
  const auto n = static_cast<int32_t>(GetParam());
  ASSERT_EQ(map.Acquire(PTO_AIV), n);  // of cluster 0
  EXPECT_EQ(map.FreeParts(0), 5u);
  EXPECT_EQ(map.TakeParts(0), 5u);
  EXPECT_EQ(map.FreeParts(0), 0u);
  EXPECT_EQ(map.busy(), 3u);
  // Collected cores are not available to others.
  EXPECT_NE(map.Acquire(PTO_AIC), 0);
  EXPECT_NE(map.Acquire(PTO_AIV), n + 1);
  map.Release(PTO_AIV, n);
  EXPECT_EQ(map.TakeParts(0), 2u);
  map.Release(PTO_MIX, 0);
  EXPECT_EQ(map.FreeParts(0), CoreMap::kWholeCluster);
  EXPECT_EQ(map.TakeParts(0), CoreMap::kWholeCluster);
  map.ReturnParts(0, 3);
  EXPECT_EQ(map.FreeParts(0), 3u);
  map.ReturnParts(0, 4);
  EXPECT_EQ(map.Acquire(PTO_MIX), 0);
}

INSTANTIATE_TEST_SUITE_P(Clusters, CoreMapTest, ::testing::Values(1, 24, 36, 64, 65, 100));

}  // namespace
}  // namespace pto::engine

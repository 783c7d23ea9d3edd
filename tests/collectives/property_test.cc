// Thousands of random collectives through the engine, compared with a plain reference.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"
#include "tests/collectives/random_graph.h"

namespace pto::testing {
namespace {

constexpr uint32_t kChips = 16;
// Graphs that run at the same time, on the same chips.
constexpr uint32_t kAtOnce = 4;
constexpr uint32_t kCases = 25;
constexpr uint32_t kWaves = 13;
constexpr uint32_t kParts = 16;
static_assert(kParts * kWaves * kAtOnce * kCases >= 20'000);

// One graph with its own memory.
struct Launch {
  std::unique_ptr<RandomGraph> graph;
  std::vector<std::shared_ptr<engine::HostAllocation>> memory;
  std::shared_ptr<pto::engine::Run> run;
};

class CollectivesTest : public ::testing::Test {
 protected:
  explicit CollectivesTest(uint32_t chips) : chips_(chips) {
    engine::Engine::Options options;
    options.chips = engine::testing::MakeTestChips(std::vector<uint32_t>(chips, 2));
    options.timers = &timers_;
    options.executors = 2;
    engine_ = std::make_unique<engine::Engine>(std::move(options));
  }

  Launch Prepare(uint64_t seed, uint32_t cases, const std::string& long_kernel = "") {
    Launch launch;
    RandomGraph::Options options;
    options.chips = chips_;
    options.cases = cases;
    options.long_kernel = long_kernel;
    launch.graph = std::make_unique<RandomGraph>(seed, options);
    EXPECT_EQ(launch.graph->refused(), "");
    if (!launch.graph->refused().empty()) return launch;
    engine::RunSpec spec;
    spec.image = launch.graph->Build().value();
    engine::RunSlots slots;
    for (uint32_t chip = 0; chip < chips_; ++chip) {
      const std::vector<std::byte>& bytes = launch.graph->initial()[chip];
      launch.memory.push_back(engine_->chips()[chip]->memory().AllocateHost(bytes.size()).value());
      std::memcpy(launch.memory.back()->data(), bytes.data(), bytes.size());
      slots.push_back({launch.memory.back(), 0});
    }
    spec.slots = std::make_shared<engine::RunSlots>(std::move(slots));
    launch.run = engine_->Prepare(std::move(spec));
    return launch;
  }

  void Check(const Launch& launch) {
    ASSERT_EQ(launch.run->state(), engine::RunState::kSucceeded)
        << (launch.run->errors().empty() ? "" : launch.run->errors()[0].ToString());
    std::vector<const std::byte*> memory;
    for (const auto& block : launch.memory) memory.push_back(block->data());
    EXPECT_EQ(launch.graph->Compare(memory), "");
  }

  void ExpectIdle() {
    for (uint32_t chip = 0; chip < chips_; ++chip)
      EXPECT_EQ(engine::testing::CoresLeftBusy(*engine_, chip), 0u);
  }

  const uint32_t chips_;
  TimerQueue timers_{Clock::Real()};
  std::unique_ptr<engine::Engine> engine_;
};

class CollectivesPropertyTest : public CollectivesTest,
                                public ::testing::WithParamInterface<uint32_t> {
 protected:
  CollectivesPropertyTest() : CollectivesTest(kChips) {}
};

TEST_P(CollectivesPropertyTest, AgreesWithThePlainReference) {
  for (uint32_t wave = 0; wave < kWaves && !HasFailure(); ++wave) {
    std::vector<Launch> launches;
    for (uint32_t i = 0; i < kAtOnce && !HasFailure(); ++i) {
      const uint64_t seed = (uint64_t{GetParam()} * kWaves + wave) * kAtOnce + i;
      SCOPED_TRACE("seed " + std::to_string(seed));
      launches.push_back(Prepare(seed, kCases));
    }
    if (HasFailure()) break;
    for (const Launch& launch : launches) engine_->Start(launch.run);
    // A hang fails here, before the test's timeout.
    ASSERT_TRUE(engine_->WaitIdle(absl::Seconds(60))) << "wave " << wave << " hangs";
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      SCOPED_TRACE("seed " + std::to_string((uint64_t{GetParam()} * kWaves + wave) * kAtOnce + i));
      Check(launches[i]);
    }
  }
  ExpectIdle();
}

INSTANTIATE_TEST_SUITE_P(Parts, CollectivesPropertyTest, ::testing::Range(0u, kParts));

// Messages so long that they are written past the caches, which is separate code: one case for each
// collective that has it.
class LongCollectivesTest : public CollectivesTest,
                            public ::testing::WithParamInterface<const char*> {
 protected:
  LongCollectivesTest() : CollectivesTest(4) {}
};

TEST_P(LongCollectivesTest, AgreesWithThePlainReference) {
  const Launch launch = Prepare(/*seed=*/1, /*cases=*/1, GetParam());
  if (HasFailure()) return;
  engine_->Start(launch.run);
  ASSERT_TRUE(engine_->WaitIdle(absl::Seconds(60)));
  Check(launch);
  ExpectIdle();
}

INSTANTIATE_TEST_SUITE_P(Kernels, LongCollectivesTest,
                         ::testing::Values("all_reduce", "reduce", "reduce_scatter", "broadcast",
                                           "all_gather", "scatter", "gather", "send_recv",
                                           "all_to_all", "all_to_all_v"),
                         [](const auto& kernel) { return std::string(kernel.param); });

}  // namespace
}  // namespace pto::testing

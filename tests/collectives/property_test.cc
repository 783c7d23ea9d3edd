// Thousands of random collectives through the engine, beside a plain reference.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/engine_testing.h"
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

// One graph with memory of its own.
struct Launch {
  std::unique_ptr<RandomGraph> graph;
  std::vector<std::shared_ptr<MemoryBlock>> memory;
  std::shared_ptr<pto::Run> run;
};

class CollectivesPropertyTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  CollectivesPropertyTest() {
    Engine::Options options;
    options.chips = MakeTestChips(std::vector<uint32_t>(kChips, 2));
    options.timers = &timers_;
    options.executors = 2;
    engine_ = std::make_unique<Engine>(std::move(options));
  }

  Launch Prepare(uint64_t seed) {
    Launch launch;
    RandomGraph::Options options;
    options.chips = kChips;
    options.cases = kCases;
    launch.graph = std::make_unique<RandomGraph>(seed, options);
    EXPECT_EQ(launch.graph->refused(), "");
    if (!launch.graph->refused().empty()) return launch;
    RunSpec spec;
    spec.image = launch.graph->Build().value();
    RunSlots slots;
    for (uint32_t chip = 0; chip < kChips; ++chip) {
      const std::vector<std::byte>& bytes = launch.graph->initial()[chip];
      launch.memory.push_back(engine_->chips()[chip].memory->Allocate(bytes.size()).value());
      std::memcpy(launch.memory.back()->data(), bytes.data(), bytes.size());
      slots.push_back({launch.memory.back(), 0});
    }
    spec.slots = std::make_shared<RunSlots>(std::move(slots));
    launch.run = engine_->Prepare(std::move(spec));
    return launch;
  }

  void Check(const Launch& launch) {
    ASSERT_EQ(launch.run->state(), RunState::kSucceeded)
        << (launch.run->errors().empty() ? "" : launch.run->errors()[0].ToString());
    std::vector<const std::byte*> memory;
    for (const auto& block : launch.memory) memory.push_back(block->data());
    EXPECT_EQ(launch.graph->Compare(memory), "");
  }

  TimerQueue timers_{Clock::Real()};
  std::unique_ptr<Engine> engine_;
};

TEST_P(CollectivesPropertyTest, AgreesWithThePlainReference) {
  for (uint32_t wave = 0; wave < kWaves && !HasFailure(); ++wave) {
    std::vector<Launch> launches;
    for (uint32_t i = 0; i < kAtOnce && !HasFailure(); ++i) {
      const uint64_t seed = (uint64_t{GetParam()} * kWaves + wave) * kAtOnce + i;
      SCOPED_TRACE("seed " + std::to_string(seed));
      launches.push_back(Prepare(seed));
    }
    if (HasFailure()) break;
    for (const Launch& launch : launches) engine_->Start(launch.run);
    // What hangs is killed here, not by the clock of the test.
    ASSERT_TRUE(engine_->WaitIdle(absl::Seconds(60))) << "wave " << wave << " hangs";
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      SCOPED_TRACE("seed " + std::to_string((uint64_t{GetParam()} * kWaves + wave) * kAtOnce + i));
      Check(launches[i]);
    }
  }
  for (uint32_t chip = 0; chip < kChips; ++chip) EXPECT_EQ(CoresLeftBusy(*engine_, chip), 0u);
}

INSTANTIATE_TEST_SUITE_P(Parts, CollectivesPropertyTest, ::testing::Range(0u, kParts));

}  // namespace
}  // namespace pto::testing

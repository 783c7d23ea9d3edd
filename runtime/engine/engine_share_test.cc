#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::TestTask;

// Runs that want all of one chip at the same time, step by step on one thread.
class EngineShareTest : public ::testing::Test {
 protected:
  EngineShareTest() {
    Engine::Options options;
    options.chips = MakeTestChips(clusters_);
    options.clock = &clock_;
    engine_ = std::make_unique<Engine>(std::move(options));
  }

  std::shared_ptr<Account> MakeAccount(uint32_t weight = 1) {
    return std::make_shared<Account>("account", weight);
  }
  // All tasks of this run take this long.
  void Add(uint32_t tasks, absl::Duration took, std::shared_ptr<Account> account,
           Priority priority = Priority::kNormal, bool sync_start = false) {
    const auto index = static_cast<uint32_t>(used_.size());
    used_.emplace_back();
    took_.push_back(took);
    RunSpec spec;
    // The number of blocks says whose it is.
    std::vector<TestTask> list(tasks);
    for (TestTask& task : list) {
      task.block_num = index + 2;
      task.sync_start = sync_start;
    }
    spec.image = MakeTestGraph(list, clusters_, [this](uint32_t, const pto_context& context) {
      const uint32_t run = context.block_count - 2;
      clock_.Advance(took_[run]);
      used_[run] += took_[run];
      return 0;
    });
    spec.account = std::move(account);
    spec.priority = priority;
    runs_.push_back(engine_->Prepare(std::move(spec)));
    engine_->Start(runs_.back());
  }
  void Step(int times) {
    for (int i = 0; i < times; ++i) ASSERT_TRUE(engine_->RunOne());
  }
  double Part(size_t run) const {
    absl::Duration all;
    for (const absl::Duration one : used_) all += one;
    return absl::FDivDuration(used_[run], all);
  }

  const std::vector<uint32_t> clusters_ = {2};
  ManualClock clock_;
  std::unique_ptr<Engine> engine_;
  std::vector<absl::Duration> used_;
  std::vector<absl::Duration> took_;
  std::vector<std::shared_ptr<pto::engine::Run>> runs_;
};

TEST_F(EngineShareTest, TwoGreedyAccountsGetHalfEach) {
  Add(10'000, absl::Milliseconds(2), MakeAccount());
  Add(10'000, absl::Microseconds(100), MakeAccount());
  Step(5000);
  EXPECT_GE(Part(0), 0.45);
  EXPECT_LE(Part(0), 0.55);
}

TEST_F(EngineShareTest, WeightsOfThreeToOne) {
  Add(10'000, absl::Milliseconds(1), MakeAccount(3));
  Add(10'000, absl::Milliseconds(1), MakeAccount(1));
  Step(5000);
  EXPECT_GE(Part(0), 0.70);
  EXPECT_LE(Part(0), 0.80);
}

TEST_F(EngineShareTest, GangsGetTheShareOfTheirAccount) {
  // Short gangs beside long tasks, and the other way round.
  for (const auto& [ordinary, gangs] : {std::pair{10'000, 300}, {300, 10'000}, {1000, 1000}}) {
    runs_.clear();
    used_.clear();
    took_.clear();
    Add(20'000, absl::Microseconds(ordinary), MakeAccount());
    Add(20'000, absl::Microseconds(gangs), MakeAccount(), Priority::kNormal, /*sync_start=*/true);
    Step(6000);
    EXPECT_GE(Part(1), 0.45) << gangs << " us beside " << ordinary;
    EXPECT_LE(Part(1), 0.55) << gangs << " us beside " << ordinary;
    for (const std::shared_ptr<pto::engine::Run>& run : runs_) {
      engine_->Stop(*run, RunState::kCancelled, absl::CancelledError("by the test"));
    }
    while (engine_->RunOne()) {
    }
  }
}

TEST_F(EngineShareTest, ManyRunsGetNoMoreThanTheirAccount) {
  std::shared_ptr<Account> many = MakeAccount();
  Add(10'000, absl::Milliseconds(1), MakeAccount());
  for (int i = 0; i < 9; ++i) Add(5000, absl::Milliseconds(1), many);
  Step(5000);
  EXPECT_GE(Part(0), 0.45);
  EXPECT_LE(Part(0), 0.55);
  // The nine take turns.
  for (size_t run = 1; run < 10; ++run) EXPECT_NEAR(Part(run), 0.5 / 9, 0.01) << run;
}

TEST_F(EngineShareTest, WithoutAccountRunsShareOne) {
  Add(10'000, absl::Milliseconds(1), nullptr);
  Add(10'000, absl::Milliseconds(1), nullptr);
  Add(10'000, absl::Milliseconds(1), MakeAccount());
  Step(4000);
  EXPECT_GE(Part(2), 0.45);
  EXPECT_LE(Part(2), 0.55);
  EXPECT_NEAR(Part(0), Part(1), 0.02);
}

TEST_F(EngineShareTest, WhoComesLateHasSavedUpNothing) {
  Add(10'000, absl::Milliseconds(1), MakeAccount());
  Add(100, absl::Milliseconds(1), MakeAccount());
  Step(3000);
  used_.assign(used_.size(), absl::ZeroDuration());
  Add(10'000, absl::Milliseconds(1), MakeAccount());
  Step(1000);
  EXPECT_GE(Part(2), 0.45);
  EXPECT_LE(Part(2), 0.55);
}

TEST_F(EngineShareTest, AHigherClassGoesFirst) {
  Add(20, absl::Milliseconds(1), MakeAccount(100), Priority::kLow);
  Add(20, absl::Milliseconds(1), MakeAccount());
  Add(20, absl::Milliseconds(1), MakeAccount(), Priority::kHigh);
  Step(80);  // 20 tasks of 4 blocks
  EXPECT_EQ(runs_[2]->state(), RunState::kSucceeded);
  EXPECT_EQ(runs_[1]->state(), RunState::kQueued);
  Step(60);
  EXPECT_EQ(runs_[1]->state(), RunState::kSucceeded);
  EXPECT_EQ(runs_[0]->state(), RunState::kQueued);
}

}  // namespace
}  // namespace pto::engine

// Kernels that hold all executors do not keep others waiting: see Crew.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/base/timer.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::engine::testing::TestTask;
using ::pto::testing::HasReason;

const std::vector<uint32_t> kClusters = {2, 2};
constexpr int64_t kMillisecond = 1'000'000;

// What a kernel does.
enum Kind : int64_t {
  kNothing = 0,
  kHolds = 1,    // goes on until its run is stopped, or `release`
  kIgnores = 2,  // goes on until `release`, also when its run is stopped
  kShort = 3,    // some ten microseconds
  kLong = 4,     // some milliseconds
};

class EngineCrewTest : public ::testing::Test {
 protected:
  using Pair = std::vector<std::shared_ptr<const GraphImage>>;

  EngineCrewTest() {
    // One body for all graphs: a later one would replace it.
    for (uint32_t chip = 0; chip < kClusters.size(); ++chip) {
      for (const Kind kind : {kNothing, kHolds, kIgnores, kShort, kLong}) {
        TestTask task;
        task.chip = chip;
        task.number = kind;
        images_.push_back(MakeTestGraph(
            {task}, kClusters, [this](uint32_t, const pto_context& c) { return Body(c); }));
      }
    }
    options_.chips = MakeTestChips(kClusters);
    options_.timers = &timers_;
    options_.executors = 2;
    options_.patience_ns = 10 * kMillisecond;
    options_.max_spares = 4;
  }
  ~EngineCrewTest() override { release_ = true; }

  void MakeEngine() { engine_ = std::make_unique<Engine>(options_); }

  int32_t Body(const pto_context& context) {
    const int64_t kind = context.scalars[0].i64;
    const auto until =
        std::chrono::steady_clock::now() +
        (kind == kLong ? std::chrono::microseconds(5'000) : std::chrono::microseconds(20));
    while (kind != kNothing && !release_) {
      if (kind == kHolds && context.api->cancelled(&context) != 0) break;
      if ((kind == kShort || kind == kLong) && std::chrono::steady_clock::now() > until) break;
      if (kind == kHolds || kind == kIgnores) std::this_thread::yield();
    }
    return 0;
  }

  RunSpec Spec(uint32_t chip, Kind kind, std::shared_ptr<Account> account) const {
    RunSpec spec;
    spec.image = images_[chip * 5 + static_cast<size_t>(kind)];
    spec.account = std::move(account);
    return spec;
  }
  std::shared_ptr<engine::Run> Start(RunSpec spec) {
    std::shared_ptr<engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Start(run);
    return run;
  }
  std::shared_ptr<engine::Run> Start(uint32_t chip, Kind kind, std::shared_ptr<Account> account) {
    return Start(Spec(chip, kind, std::move(account)));
  }

  template <typename Condition>
  static bool Eventually(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  static bool Ends(const std::shared_ptr<engine::Run>& run) {
    return Eventually([&] { return IsFinal(run->state()); });
  }
  // Two runs that hold both executors, with cores of chip 0.
  std::vector<std::shared_ptr<engine::Run>> HoldBoth(Kind kind) {
    std::vector<std::shared_ptr<engine::Run>> runs = {Start(0, kind, one_), Start(0, kind, one_)};
    EXPECT_TRUE(Eventually([&] { return engine_->chip_use(0).busy_cores == 2; }));
    return runs;
  }

  std::atomic<bool> release_{false};
  const std::shared_ptr<Account> one_ = std::make_shared<Account>("one");
  const std::shared_ptr<Account> other_ = std::make_shared<Account>("other");
  std::vector<std::shared_ptr<const GraphImage>> images_;
  TimerQueue timers_{Clock::Real()};
  const TimerThread timer_thread_{timers_};
  Engine::Options options_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineCrewTest, OthersGoOnWhileKernelsHoldAllExecutors) {
  MakeEngine();
  const std::vector<std::shared_ptr<engine::Run>> held = HoldBoth(kHolds);
  // On another chip, of whatever account; and on the same chip, of another one.
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Ends(Start(1, kNothing, other_)));
    EXPECT_TRUE(Ends(Start(1, kNothing, one_)));
    EXPECT_TRUE(Ends(Start(0, kNothing, other_)));
  }
  EXPECT_GT(engine_->thread_use().spares, 0u);
  EXPECT_FALSE(engine_->threads_stuck());
  for (const std::shared_ptr<engine::Run>& run : held) {
    EXPECT_EQ(run->state(), RunState::kRunning);
    engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
    EXPECT_TRUE(Ends(run));
  }
  // The spare ones leave.
  EXPECT_TRUE(Eventually([&] { return engine_->thread_use().spares == 0; }));
  EXPECT_TRUE(Ends(Start(0, kNothing, one_)));
}

TEST_F(EngineCrewTest, AnAccountThatHoldsTheExecutorsGetsNoSpareOnTheSameChip) {
  MakeEngine();
  HoldBoth(kHolds);
  const std::shared_ptr<engine::Run> third = Start(0, kHolds, one_);
  // Others are served meanwhile, by a spare that could have taken it.
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Ends(Start(0, kNothing, other_)));
  EXPECT_EQ(engine_->chip_use(0).busy_cores, 2u);
  release_ = true;
  EXPECT_TRUE(Ends(third));
}

TEST_F(EngineCrewTest, ShortKernelsHireNobody) {
  options_.patience_ns = 50 * kMillisecond;
  MakeEngine();
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (std::chrono::steady_clock::now() < until) {
    std::vector<std::shared_ptr<engine::Run>> runs;
    for (int i = 0; i < 200; ++i) runs.push_back(Start(i % 2, kShort, i % 3 == 0 ? one_ : other_));
    for (const std::shared_ptr<engine::Run>& run : runs) ASSERT_TRUE(Ends(run));
    ASSERT_EQ(engine_->thread_use().spares, 0u);
  }
}

TEST_F(EngineCrewTest, ACallEndsAtItsLimitUnlessItsTaskHasAnother) {
  options_.call_limit_ns = 100 * kMillisecond;
  MakeEngine();
  RunSpec patient = Spec(0, kHolds, one_);
  patient.task_timeout_ns = int64_t{3600} * 1000 * kMillisecond;
  const std::shared_ptr<engine::Run> stays = Start(std::move(patient));
  const std::shared_ptr<engine::Run> run = Start(0, kHolds, one_);
  ASSERT_TRUE(Ends(run));
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_THAT(run->stop_error(), HasReason(reason::kTaskDeadline));
  EXPECT_NE(run->stop_error().message().find("has held a thread for 100ms"),
            absl::string_view::npos)
      << run->stop_error();
  EXPECT_EQ(stays->state(), RunState::kRunning);
  release_ = true;
  EXPECT_TRUE(Ends(stays));
}

// Of a launch that the caller's thread runs itself.
TEST_F(EngineCrewTest, ACallOfAHelperEndsAtItsLimitToo) {
  options_.call_limit_ns = 100 * kMillisecond;
  MakeEngine();
  const std::shared_ptr<engine::Run> run = engine_->Prepare(Spec(0, kHolds, one_));
  engine_->Start(run, /*help_ns=*/1'000 * kMillisecond);
  ASSERT_TRUE(Ends(run));
  EXPECT_THAT(run->stop_error(), HasReason(reason::kTaskDeadline));
}

TEST_F(EngineCrewTest, SaysThatItIsStuckUntilAThreadIsFree) {
  std::atomic<int> told{0};
  options_.max_spares = 1;
  options_.on_stuck = [&told](bool stuck) { told += stuck ? 1 : 10; };
  MakeEngine();
  std::vector<std::shared_ptr<engine::Run>> held = HoldBoth(kIgnores);
  held.push_back(Start(1, kIgnores, one_));
  // The spare one is held too, which takes a while to be seen. Nobody waits yet.
  ASSERT_TRUE(Eventually([&] { return engine_->thread_use().held == 3; }));
  EXPECT_FALSE(engine_->threads_stuck());
  const std::shared_ptr<engine::Run> waits = Start(1, kNothing, other_);
  // It is told a moment later, by the same thread.
  ASSERT_TRUE(Eventually([&] { return told == 1; }));
  EXPECT_TRUE(engine_->threads_stuck());
  for (const std::shared_ptr<engine::Run>& run : held) {
    engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
  }
  ASSERT_TRUE(Eventually([&] { return engine_->thread_use().stopped == 3; }));
  EXPECT_EQ(waits->state(), RunState::kQueued);
  release_ = true;
  EXPECT_TRUE(Ends(waits));
  EXPECT_TRUE(Eventually([&] { return told == 11; }));
  EXPECT_FALSE(engine_->threads_stuck());
}

// Without spares, being busy is no fault; but kernels of stopped runs that go on are.
TEST_F(EngineCrewTest, WithoutSparesOnlyStoppedRunsMakeItStuck) {
  options_.max_spares = 0;
  MakeEngine();
  const std::vector<std::shared_ptr<engine::Run>> held = HoldBoth(kIgnores);
  const std::shared_ptr<engine::Run> waits = Start(1, kNothing, other_);
  ASSERT_TRUE(Eventually([&] { return engine_->thread_use().held == 2; }));
  EXPECT_FALSE(engine_->threads_stuck());
  for (const std::shared_ptr<engine::Run>& run : held) {
    engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
  }
  EXPECT_TRUE(Eventually([&] { return engine_->threads_stuck(); }));
  EXPECT_EQ(engine_->thread_use().stopped, 2u);
  release_ = true;
  EXPECT_TRUE(Ends(waits));
}

// A block that waits on a fiber of an executor goes on although that executor is held meanwhile.
TEST(EngineCrewFiberTest, BlocksThatWaitedGoOnElsewhere) {
  constexpr uint32_t kWaits = 0;
  constexpr uint32_t kBlocks = 8;
  // Blocks that wait keep their cores, and the kernel that holds needs one more.
  SlowEngine slow({8}, /*executors=*/1, /*lane_grace_ns=*/0, /*patience_ns=*/5 * kMillisecond);
  const TimerThread timer_thread(slow.timers);
  std::atomic<bool> release{false};
  std::atomic<int> holds{0};
  const KernelBody wait = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = slow.signal(kWaits);
    // Twice, so that it waits again where it was taken over.
    for (const int64_t value : {1, 2}) {
      const int32_t result = context.api->wait(&context, &signal, PTO_GE, value, 0);
      if (result != PTO_OK) return result;
    }
    return int32_t{0};
  };
  const KernelBody hold = [&](uint32_t, const pto_context&) {
    ++holds;
    while (!release) std::this_thread::yield();
    return int32_t{0};
  };
  RunSpec spec;
  SlowTask waits;
  waits.kernel = "waits";
  waits.block_num = kBlocks;
  const std::shared_ptr<engine::Run> waiting = slow.Start({waits}, wait, spec);
  const auto eventually = [](const auto& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return condition();
  };
  ASSERT_TRUE(eventually([&] { return slow.engine->waiting() == kBlocks; }));
  spec.account = std::make_shared<Account>("holder");
  SlowTask holding;
  holding.kernel = "silent";
  const std::shared_ptr<engine::Run> held = slow.Start({holding}, hold, spec);
  ASSERT_TRUE(eventually([&] { return holds == 1; }));
  slow.Notify(kWaits, PTO_SET, 1);
  ASSERT_TRUE(eventually([&] { return slow.engine->waiting() == kBlocks; }));
  slow.Notify(kWaits, PTO_SET, 2);
  EXPECT_TRUE(eventually([&] { return IsFinal(waiting->state()); }));
  EXPECT_EQ(waiting->state(), RunState::kSucceeded);
  EXPECT_EQ(held->state(), RunState::kRunning);
  release = true;
  EXPECT_TRUE(eventually([&] { return IsFinal(held->state()); }));
  EXPECT_TRUE(slow.engine->WaitIdle(absl::Seconds(20)));
}

// Spares come and go all the time, and every run ends.
TEST_F(EngineCrewTest, ComesAndGoesUnderLoad) {
  options_.patience_ns = kMillisecond;
  options_.call_limit_ns = 2 * kMillisecond;
  MakeEngine();
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<engine::Run>> runs;
    for (int i = 0; i < 30; ++i) {
      const Kind kinds[] = {kNothing, kShort, kLong, kHolds};
      runs.push_back(Start(random() % 2, kinds[random() % 4], random() % 2 == 0 ? one_ : other_));
    }
    for (const std::shared_ptr<engine::Run>& run : runs) ASSERT_TRUE(Ends(run));
  }
}

}  // namespace
}  // namespace pto::engine

// Runs that are cancelled at every boundary of 200 tasks, in an engine that the test single-steps:
// tasks defer their end, and gangs are at a barrier, exactly when the cancel comes.

#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::testing {
namespace {

constexpr uint32_t kGroup = 10;
constexpr uint32_t kTasks = 200;

// The tasks of a group.
enum Kind : uint32_t {
  kFirst,      // all others of the group come after it
  kLeft,       // parallel to the next
  kRight,      //
  kWaits,      // its kernel sleeps on a core until kTellWaits
  kTellWaits,  //
  kDefers,     // its kernel returns, it ends with kTellDefers
  kTellDefers,
  kGang,  // blocks that start together and meet at a barrier
  kCopy,  // without a core
  kLast,
};

// Signals; they count groups.
constexpr uint32_t kWaitsWord = 0;
constexpr uint32_t kDefersWord = 1;
constexpr uint32_t kOutsideWord = 2;  // the first task of each group waits for it, in some tests
constexpr int64_t kCopyFrom = 16;
constexpr int64_t kCopyTo = 32;

std::vector<engine::testing::SlowTask> TwoHundredTasks() {
  std::vector<engine::testing::SlowTask> tasks;
  for (uint32_t base = 0; base < kTasks; base += kGroup) {
    const std::vector<uint32_t> first = {base + kFirst};
    engine::testing::SlowTask begin;
    if (base > 0) begin.after = {base - kGroup + kLast};
    tasks.push_back(begin);
    tasks.push_back({.after = first});
    tasks.push_back({.after = first, .chip = 1});
    tasks.push_back({.kernel = "waits", .after = first});
    tasks.push_back(
        {.kernel = "notify", .after = {base + kLeft}, .word = kWaitsWord, .scalars = {PTO_ADD, 1}});
    tasks.push_back({.after = first, .chip = 1});
    tasks.push_back({.kernel = "notify",
                     .after = {base + kRight},
                     .word = kDefersWord,
                     .scalars = {PTO_ADD, 1}});
    tasks.push_back({.kernel = "waits",
                     .after = {base + kWaits, base + kDefers},
                     .block_num = 4,
                     .together = true});
    tasks.push_back({.kernel = "copy_async",
                     .after = {base + kGang},
                     .from = kCopyFrom,
                     .to = kCopyTo,
                     .count = 8});
    tasks.push_back({.after = {base + kCopy, base + kTellWaits, base + kTellDefers}});
  }
  return tasks;
}

// Executes one run after the other on the same engine.
class Cancelled {
 public:
  explicit Cancelled(uint32_t executors) : node({4, 4}, executors) {
    body_ = [this](uint32_t task, const pto_context& context) { return Body(task, context); };
  }

  // `at`: the kernel of that task cancels the run; `outside`: every group waits for a signal from
  // outside.
  std::shared_ptr<pto::engine::Run> Start(absl::optional<uint32_t> at, bool outside) {
    for (uint32_t i = 0; i < engine::testing::SlowEngine::kWords; ++i) *node.word(i) = 0;
    at_ = at;
    cancelled_.store(false);
    std::vector<engine::testing::SlowTask> tasks = TwoHundredTasks();
    if (outside) {
      for (uint32_t base = 0; base < kTasks; base += kGroup) {
        tasks[base].kernel = "wait";
        tasks[base].word = kOutsideWord;
        tasks[base].scalars = {PTO_GE, base / kGroup + 1, 0};
      }
    }
    run_ = node.Start(tasks, body_);
    return run_;
  }

  engine::testing::SlowEngine node;

 private:
  int32_t Body(uint32_t task, const pto_context& context) {
    // In a gang, the last block to arrive cancels: the others are at the barrier.
    const bool now = at_ == task && context.block_index + 1 == context.block_count;
    if (now && !cancelled_.exchange(true)) node.Cancel(*run_);
    const auto group = static_cast<int64_t>(task / kGroup);
    switch (task % kGroup) {
      case kWaits: {
        const pto_signal signal = node.signal(kWaitsWord);
        return context.api->wait(&context, &signal, PTO_GE, group + 1, 0);
      }
      case kDefers: {
        const pto_signal signal = node.signal(kDefersWord);
        return context.api->defer(&context, &signal, PTO_GE, group + 1, 0);
      }
      case kGang:
        for (int i = 0; i < 3; ++i) {
          if (const int32_t code = context.api->barrier(&context, PTO_SCOPE_TASK)) return code;
        }
        return 0;
      default:
        return 0;
    }
  }

  engine::testing::KernelBody body_;
  absl::optional<uint32_t> at_;
  std::atomic<bool> cancelled_{false};
  std::shared_ptr<pto::engine::Run> run_;
};

void ExpectWhole(Cancelled& world) {
  const std::shared_ptr<pto::engine::Run> run = world.Start(absl::nullopt, /*outside=*/false);
  if (world.node.engine->executors() == 0) {
    world.node.RunAll();
  } else {
    world.node.observer->WaitFinished();
  }
  EXPECT_EQ(run->state(), engine::RunState::kSucceeded);
  EXPECT_EQ(run->counts().done, kTasks);
}

TEST(CancelEngineTest, InsideEveryTask) {
  Cancelled world(/*executors=*/0);
  ExpectWhole(world);
  int runs = 0;
  for (uint32_t at = 0; at < kTasks; ++at) {
    const uint32_t kind = at % kGroup;
    if (kind == kTellWaits || kind == kTellDefers || kind == kCopy)
      continue;  // no kernel of their own
    const std::shared_ptr<pto::engine::Run> run = world.Start(at, /*outside=*/false);
    world.node.RunAll();
    ++runs;
    ASSERT_EQ(run->state(), engine::RunState::kCancelled) << "in task " << at;
    ASSERT_LT(run->counts().done, kTasks);
    world.node.ExpectClean();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "after a cancel in task " << at;
  }
  ExpectWhole(world);
  std::cout << runs << " runs, each cancelled in another task\n";
}

// Between any two steps of the engine: there are waiting tasks, sleeping kernels, deferred ends and
// copies in flight.
TEST(CancelEngineTest, AfterEveryStep) {
  for (const bool outside : {false, true}) {
    Cancelled world(/*executors=*/0);
    int steps = 0;
    for (bool whole = false; !whole; ++steps) {
      const std::shared_ptr<pto::engine::Run> run = world.Start(absl::nullopt, outside);
      for (int i = 0; i < steps && !whole; ++i) {
        if (world.node.engine->RunOne()) continue;
        // Now only an outside event can continue the run.
        whole = run->state() == engine::RunState::kSucceeded;
        if (!whole) world.node.Notify(kOutsideWord, PTO_ADD, 1);
      }
      whole = run->state() == engine::RunState::kSucceeded;
      world.node.Cancel(*run);
      world.node.RunAll();
      ASSERT_EQ(run->state(), whole ? engine::RunState::kSucceeded : engine::RunState::kCancelled)
          << "after " << steps << " steps";
      world.node.ExpectClean();
      ASSERT_FALSE(::testing::Test::HasFailure()) << "after " << steps << " steps";
    }
    EXPECT_GT(steps, 50);  // one step can be several short tasks
    ExpectWhole(world);
    std::cout << steps << " runs, each cancelled after one more step\n";
  }
}

TEST(CancelEngineTest, AtAnyTimeWithThreads) {
  constexpr int kRuns = 200;
  Cancelled world(/*executors=*/2);
  std::mt19937 random(7);
  const absl::Time before = absl::Now();
  ExpectWhole(world);
  const absl::Duration whole = absl::Now() - before;
  int cancelled = 0;
  for (int i = 0; i < kRuns; ++i) {
    const std::shared_ptr<pto::engine::Run> run = world.Start(absl::nullopt, /*outside=*/false);
    absl::SleepFor(whole * std::uniform_real_distribution<double>(0, 1)(random));
    world.node.Cancel(*run);
    world.node.observer->WaitFinished();
    const engine::RunState state = run->state();
    ASSERT_TRUE(state == engine::RunState::kCancelled || state == engine::RunState::kSucceeded);
    cancelled += state == engine::RunState::kCancelled ? 1 : 0;
  }
  ExpectWhole(world);
  EXPECT_GT(cancelled, 0);
  std::cout << kRuns << " runs with threads, of which " << cancelled << " were cancelled in time\n";
}

}  // namespace
}  // namespace pto::testing

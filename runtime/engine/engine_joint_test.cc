#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::CoresLeftBusy;
using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::TestObserver;
using ::pto::engine::testing::TestTask;
using ::pto::engine::testing::UseWorkspace;
using ::pto::testing::HasReason;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kMuch = 1 << 30;  // bytes that are worth a second thread

// Tasks whose kernels work in phases.
class EngineJointTest : public ::testing::Test {
 protected:
  void MakeEngine(uint32_t executors) {
    Engine::Options options;
    options.chips = MakeTestChips(clusters_);
    options.timers = &timers_;
    options.executors = executors;
    engine_ = std::make_unique<Engine>(std::move(options));
  }
  std::shared_ptr<pto::engine::Run> Start(const std::vector<TestTask>& tasks, KernelBody body,
                                          int64_t task_timeout_ns = 0,
                                          std::shared_ptr<Account> account = nullptr) {
    RunSpec spec;
    spec.account = std::move(account);
    spec.image = MakeTestGraph(tasks, clusters_, std::move(body));
    spec.task_timeout_ns = task_timeout_ns;
    std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Start(run);
    return run;
  }
  void Finish() {
    if (engine_->executors() == 0) {
      while (engine_->RunOne()) {
      }
    }
    ASSERT_TRUE(engine_->WaitIdle(absl::Seconds(60)));
    for (uint32_t chip = 0; chip < clusters_.size(); ++chip) {
      EXPECT_EQ(CoresLeftBusy(*engine_, chip), 0u);
    }
  }

  const std::vector<uint32_t> clusters_ = {2, 3, 2};
  TimerQueue timers_{Clock::Real()};
  std::unique_ptr<Engine> engine_;
};

TestTask Phased(uint32_t phases, std::vector<uint32_t> members, uint32_t blocks = 1,
                int64_t bytes = 0) {
  TestTask task;
  task.phases = phases;
  task.phase_bytes = bytes;
  task.block_num = blocks;
  task.members = std::move(members);
  return task;
}

TEST_F(EngineJointTest, EveryBlockIsCalledOnceInEachPhaseAndPhasesDoNotMix) {
  MakeEngine(0);
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> calls;
  uint32_t in_order = 0;
  std::shared_ptr<pto::engine::Run> run =
      Start({Phased(3, {2, 0}, 2)}, [&](uint32_t, const pto_context& context) {
        EXPECT_EQ(calls.size() / 4, context.phase);
        EXPECT_EQ(context.phase_count, 3u);
        EXPECT_EQ(context.member_count, 2u);
        EXPECT_EQ(context.chip, context.member_index == 0 ? 2u : 0u);
        EXPECT_NE(context.workspace, nullptr);
        calls.insert({context.phase, context.member_index, context.block_index});
        ++in_order;
        return 0;
      });
  Finish();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(calls.size(), 12u);
  EXPECT_EQ(in_order, 12u);
}

// Small ones stay for the next task, whoever that belongs to; large ones do not.
TEST_F(EngineJointTest, ALargeWorkspaceCountsForTheRunsAccount) {
  MakeEngine(0);
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const auto memory = std::make_shared<MemoryAccount>("a client", "bytes", 2 * kMiB);
  const auto account = std::make_shared<Account>("a", 1, "", memory);
  uint64_t most = 0;
  const auto look = [&](uint32_t, const pto_context&) {
    most = std::max(most, memory->used());
    return 0;
  };
  std::shared_ptr<pto::engine::Run> run = Start({Phased(2, {})}, look, 0, account);
  Finish();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(most, 0u);
  UseWorkspace(kMiB);
  for (int i = 0; i < 3; ++i) {
    run = Start({Phased(2, {}), Phased(2, {})}, look, 0, account);
    Finish();
    EXPECT_EQ(run->state(), RunState::kSucceeded);
    EXPECT_EQ(memory->used(), 0u);
  }
  EXPECT_GE(most, kMiB);
  UseWorkspace(3 * kMiB);
  run = Start({Phased(2, {})}, look, 0, account);
  Finish();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kWorkspaceExhausted));
  EXPECT_THAT(std::string(run->errors()[0].message()), HasSubstr("a client may hold"));
  EXPECT_EQ(memory->used(), 0u);
  // Without an account nothing is counted.
  run = Start({Phased(2, {})}, look);
  Finish();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  UseWorkspace(64);
}

TEST_F(EngineJointTest, OneBlockOnOneChipHasPhasesToo) {
  MakeEngine(0);
  std::vector<uint32_t> phases;
  Start({Phased(2, {})}, [&](uint32_t, const pto_context& context) {
    phases.push_back(context.phase);
    return 0;
  });
  Finish();
  EXPECT_EQ(phases, (std::vector<uint32_t>{0, 1}));
}

TEST_F(EngineJointTest, ManyThreadsKeepPhasesApart) {
  MakeEngine(3);
  constexpr uint32_t kTasks = 200;
  constexpr uint32_t kPhases = 5;
  std::vector<TestTask> tasks;
  for (uint32_t i = 0; i < kTasks; ++i) {
    TestTask task = Phased(kPhases, {0, 1, 2}, 2, kMuch);
    if (i % 3 != 0) task.after = {i - 1};
    tasks.push_back(task);
  }
  // Calls that have ended of each task.
  std::vector<std::atomic<uint32_t>> ended(kTasks);
  std::atomic<uint32_t> wrong{0};
  std::shared_ptr<pto::engine::Run> run =
      Start(tasks, [&](uint32_t task, const pto_context& context) {
        const uint32_t before = ended[task].load(std::memory_order_acquire);
        if (before < 6 * context.phase || before >= 6 * (context.phase + 1)) ++wrong;
        ended[task].fetch_add(1, std::memory_order_acq_rel);
        return 0;
      });
  Finish();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(wrong.load(), 0u);
  for (const auto& count : ended) EXPECT_EQ(count.load(), 6 * kPhases);
}

TEST_F(EngineJointTest, ARunWhoseLastTaskIsSharedEndsOnce) {
  // The worker that began the task may still ask for help when others have done all of it.
  MakeEngine(3);
  RunSpec spec;
  spec.image = MakeTestGraph({Phased(3, {0, 1, 2}, 1, kMuch)}, clusters_,
                             [](uint32_t, const pto_context&) { return 0; });
  for (int round = 0; round < 300; ++round) {
    std::vector<std::shared_ptr<TestObserver>> observers;
    for (int i = 0; i < 8; ++i) {
      spec.observer = observers.emplace_back(std::make_shared<TestObserver>());
      engine_->Start(engine_->Prepare(spec));
    }
    Finish();
    for (const auto& observer : observers) ASSERT_EQ(observer->finished.load(), 1);
  }
}

TEST_F(EngineJointTest, FullWidthTasksWaitForEachOthersCores) {
  MakeEngine(2);
  std::vector<TestTask> tasks;
  for (uint32_t i = 0; i < 300; ++i) {
    tasks.push_back(i % 3 == 0 ? Phased(2, {0, 1}, 4) : Phased(2, {1, 2}, i % 4 + 1));
  }
  std::atomic<uint32_t> calls{0};
  std::shared_ptr<pto::engine::Run> run = Start(tasks, [&](uint32_t, const pto_context&) {
    ++calls;
    return 0;
  });
  Finish();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  uint32_t expected = 0;
  for (const TestTask& task : tasks) expected += 4 * task.block_num;
  EXPECT_EQ(calls.load(), expected);
}

// What is said beside the text of an error.
std::string Detail(const absl::Status& error, const std::string& key) {
  std::string all;
  for (const auto& [name, value] : GetErrorDetail(error).value_or(ErrorDetail()).metadata) {
    if (name == key) absl::StrAppend(&all, all.empty() ? "" : " and ", value);
  }
  return all;
}
void ExpectPlace(const absl::Status& error, const std::string& rank, const std::string& chip,
                 const std::string& phase) {
  EXPECT_EQ(Detail(error, "rank"), rank) << error;
  EXPECT_EQ(Detail(error, "chip"), chip) << error;
  EXPECT_EQ(Detail(error, "phase"), phase) << error;
  EXPECT_EQ(Detail(error, "task"), "0") << error;
}

TEST_F(EngineJointTest, AFailedCallEndsTheTaskBeforeItsNextPhase) {
  MakeEngine(0);
  uint32_t last_phase = 0;
  uint32_t others = 0;
  TestTask after;
  after.after = {0};
  std::shared_ptr<pto::engine::Run> run =
      Start({Phased(4, {1, 0}), after}, [&](uint32_t task, const pto_context& context) {
        if (task == 1) ++others;
        last_phase = context.phase;
        return context.phase == 1 && context.member_index == 1 ? 7 : 0;
      });
  Finish();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(last_phase, 1u);
  EXPECT_EQ(others, 0u);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kKernelFailed));
  EXPECT_THAT(std::string(run->errors()[0].message()), HasSubstr("on chips/0 core "));
  EXPECT_THAT(std::string(run->errors()[0].message()), HasSubstr(", rank 1 of 2, phase 1 of 4"));
  ExpectPlace(run->errors()[0], "1", "chips/0", "1");
}

TEST_F(EngineJointTest, ACancelledRunLeavesNoCoreBehind) {
  MakeEngine(2);
  std::atomic<bool> entered{false};
  std::atomic<bool> stopped{false};
  std::vector<TestTask> tasks(50, Phased(3, {0, 1, 2}, 4, kMuch));
  std::shared_ptr<pto::engine::Run> run = Start(tasks, [&](uint32_t, const pto_context& context) {
    entered = true;
    while (context.api->cancelled(&context) == 0) {
    }
    stopped = true;
    return 1;
  });
  while (!entered) {
  }
  engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
  Finish();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(run->errors().size(), 1u);
}

// Alone and with others, whatever a kernel returns that was told to stop.
TEST_F(EngineJointTest, AStalledRankIsNamedWhenTheTasksTimeIsUp) {
  for (const int64_t bytes : {int64_t{0}, kMuch}) {
    for (const int32_t code : {0, 1}) {
      MakeEngine(2);
      std::shared_ptr<pto::engine::Run> run = Start(
          {Phased(3, {0, 2, 1}, 1, bytes)},
          [&](uint32_t, const pto_context& context) {
            if (context.phase != 1 || context.member_index != 1) return 0;
            while (context.api->cancelled(&context) == 0) timers_.RunDue();
            if (code != 0) context.api->set_error(&context, "gave up");
            return code;
          },
          /*task_timeout_ns=*/5'000'000);
      Finish();
      EXPECT_EQ(run->state(), RunState::kFailed);
      ASSERT_EQ(run->errors().size(), 1u);
      const absl::Status error = run->errors()[0];
      EXPECT_THAT(error, HasReason(reason::kTaskDeadline));
      EXPECT_THAT(std::string(error.message()),
                  HasSubstr("the task's time of 5ms is up in block 0 of 1 on chips/2 core "));
      EXPECT_THAT(std::string(error.message()), HasSubstr(", rank 1 of 3, phase 1 of 3"));
      EXPECT_EQ(absl::StrContains(error.message(), "; gave up"), code != 0) << error;
      ExpectPlace(error, "1", "chips/2", "1");
    }
  }
}

TEST_F(EngineJointTest, ARunThatIsStoppedSaysWhereItsCollectiveWas) {
  for (const int64_t bytes : {int64_t{0}, kMuch}) {
    MakeEngine(2);
    std::atomic<bool> entered{false};
    std::shared_ptr<pto::engine::Run> run =
        Start({Phased(3, {0, 2, 1}, 1, bytes)}, [&](uint32_t, const pto_context& context) {
          if (context.phase != 2 || context.member_index != 2) return 0;
          entered = true;
          while (context.api->cancelled(&context) == 0) {
          }
          context.api->set_error(&context, "gave up");
          return 1;
        });
    while (!entered) std::this_thread::yield();
    engine_->Stop(*run, RunState::kCancelled,
                  Error(reason::kRunCancelled, "by the test").With("by", "me"));
    Finish();
    EXPECT_EQ(run->state(), RunState::kCancelled);
    ASSERT_EQ(run->errors().size(), 1u);
    const absl::Status error = run->errors()[0];
    EXPECT_THAT(error, HasReason(reason::kRunCancelled));
    const std::string text(error.message());
    EXPECT_THAT(text, StartsWith("by the test; task 0: was in block 0 of 1 on chips/"));
    EXPECT_EQ(Detail(error, "by"), "me");
    // With others, another rank may just return.
    if (bytes != 0 && !absl::StrContains(text, ", rank 2 of 3")) continue;
    EXPECT_THAT(text, EndsWith(", rank 2 of 3, phase 2 of 3: gave up"));
    ExpectPlace(error, "2", "chips/1", "2");
  }
}

TEST_F(EngineJointTest, WhatIsThrownIsNotLostWithTheRun) {
  MakeEngine(2);
  std::atomic<bool> entered{false};
  std::shared_ptr<pto::engine::Run> run =
      Start({Phased(1, {0, 1})}, [&](uint32_t, const pto_context& context) -> int32_t {
        entered = true;
        while (context.api->cancelled(&context) == 0) {
        }
        throw std::runtime_error("oh no");
      });
  while (!entered) std::this_thread::yield();
  engine_->Stop(*run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
  Finish();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  ASSERT_EQ(run->errors().size(), 2u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kRunCancelled));
  EXPECT_THAT(run->errors()[1], HasReason(reason::kKernelThrew));
}

// Plain tasks and joint ones whose ends meet in one task: none of them may be forgotten.
TEST_F(EngineJointTest, WhoWaitsForBothKindsIsTold) {
  MakeEngine(2);
  constexpr uint32_t kGroups = 20;
  // What the plain and the joint task of a group have come to.
  std::vector<std::atomic<uint32_t>> there(kGroups);
  const auto body = [&](uint32_t task, const pto_context& context) {
    if (task % 4 != 1 && (task % 4 != 2 || context.phase == 0 || context.member_index == 0)) {
      return 0;
    }
    // They end at the same time, more or less, if two threads have them.
    std::atomic<uint32_t>& both = there[task / 4];
    ++both;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    while (both.load() < 2 && std::chrono::steady_clock::now() < until) {
    }
    if (task % 4 == 1) {
      static thread_local uint32_t delay = 0;
      delay = (delay + 7) % 300;
      for (std::atomic<uint32_t> i = 0; i < delay; ++i) {
      }
    }
    return 0;
  };
  std::vector<TestTask> tasks;
  for (uint32_t i = 0; i < kGroups; ++i) {
    const uint32_t first = 4 * i;
    TestTask begin;
    if (i > 0) begin.after = {first - 1};
    TestTask plain;
    plain.after = {first};
    TestTask joint = Phased(2, {0, 1});
    joint.after = {first};
    TestTask both;
    both.after = {first + 1, first + 2};
    tasks.insert(tasks.end(), {begin, plain, joint, both});
  }
  const std::shared_ptr<const GraphImage> image = MakeTestGraph(tasks, clusters_, body);
  for (int round = 0; round < 100; ++round) {
    for (std::atomic<uint32_t>& group : there) group = 0;
    RunSpec spec;
    spec.image = image;
    std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
    // With and without the help of the thread that begins it.
    engine_->Start(run, round % 2 == 0 ? 1'000'000'000 : 0);
    ASSERT_TRUE(engine_->WaitIdle(absl::Seconds(60)));
    ASSERT_EQ(run->state(), RunState::kSucceeded) << run->counts().done << ", round " << round;
  }
  Finish();
}

// Collectives that take the same chips in other orders give way to each other, and none is left
// waiting for cores that another one had for a moment.
TEST_F(EngineJointTest, RunsThatWantTheSameChipsAllEnd) {
  MakeEngine(2);
  const auto body = [](uint32_t, const pto_context&) { return 0; };
  const std::shared_ptr<const GraphImage> images[] = {
      MakeTestGraph({Phased(1, {0, 1, 2}, 4)}, clusters_, body),
      MakeTestGraph({Phased(1, {2, 1, 0}, 4)}, clusters_, body)};
  constexpr int kRounds = 2000;
  std::atomic<int> ready{0};
  std::atomic<bool> failed{false};
  const auto start = [&](int which) {
    for (int round = 0; round < kRounds && !failed; ++round) {
      RunSpec spec;
      spec.image = images[which];
      std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
      // Both at once.
      ++ready;
      for (int i = 1; ready < 2 * (round + 1) && !failed; ++i) {
        if (i % 1024 == 0) std::this_thread::yield();
      }
      engine_->Start(run);
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!IsFinal(run->state()) && std::chrono::steady_clock::now() < until) {
        std::this_thread::yield();
      }
      if (run->state() != RunState::kSucceeded) failed = true;
    }
  };
  std::thread other([&] { start(1); });
  start(0);
  other.join();
  EXPECT_FALSE(failed) << "a run hangs";
  if (!failed) Finish();
}

}  // namespace
}  // namespace pto::engine

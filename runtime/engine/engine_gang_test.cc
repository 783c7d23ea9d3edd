#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::TestTask;
using ::pto::testing::HasReason;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr int64_t kLong = 3'600'000'000'000;

// Gangs, groups and lanes in an engine without executors: the test itself runs block by block.
class EngineGangTest : public ::testing::Test {
 protected:
  EngineGangTest() {
    Engine::Options options;
    options.chips = MakeTestChips(clusters_);
    options.clock = &clock_;
    options.timers = &timers_;
    engine_ = std::make_unique<Engine>(std::move(options));
  }

  std::shared_ptr<pto::engine::Run> Start(const std::vector<TestTask>& tasks, KernelBody body,
                                          int64_t help_ns = 0, int64_t task_timeout_ns = 0) {
    RunSpec spec;
    spec.image = MakeTestGraph(tasks, clusters_, std::move(body));
    spec.task_timeout_ns = task_timeout_ns;
    std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Start(run, help_ns);
    return run;
  }
  // The body is that of the graph that is made last.
  std::shared_ptr<pto::engine::Run> Prepare(const std::vector<TestTask>& tasks) {
    RunSpec spec;
    spec.image = MakeTestGraph(tasks, clusters_, nullptr);
    return engine_->Prepare(std::move(spec));
  }
  void RunAll() {
    while (engine_->RunOne()) {
    }
  }
  void Cancel(pto::engine::Run& run) {
    engine_->Stop(run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
  }
  uint32_t busy() const {
    return engine_->chip_use(0).busy_cores + engine_->chip_use(1).busy_cores;
  }

  const std::vector<uint32_t> clusters_ = {2, 3};
  ManualClock clock_;
  TimerQueue timers_{clock_};
  std::unique_ptr<Engine> engine_;
};

TestTask Gang(pto_core kind, uint32_t blocks, uint32_t chip = 0) {
  TestTask task;
  task.chip = chip;
  task.core = kind;
  task.block_num = blocks;
  task.sync_start = true;
  return task;
}

TestTask Group(uint32_t blocks, pto_core kind = PTO_AIV) {
  TestTask task;
  task.core = kind;
  task.block_num = blocks;
  task.members = {1, 0};
  return task;
}

// That an error tells of rank 1 of a group.
void ExpectRankOne(const absl::Status& error) {
  EXPECT_THAT(std::string(error.message()), HasSubstr("on chips/0 core "));
  EXPECT_THAT(std::string(error.message()), HasSubstr(", rank 1 of 2"));
  const ErrorDetail detail = GetErrorDetail(error).value_or(ErrorDetail());
  EXPECT_THAT(detail.metadata, Contains(Pair("rank", "1")));
  EXPECT_THAT(detail.metadata, Contains(Pair("chip", "chips/0")));
}

TEST_F(EngineGangTest, BlocksOfAGangHoldTheirCoresFromTheStart) {
  std::vector<uint32_t> busy_cores;
  std::set<uint32_t> cores;
  std::shared_ptr<pto::engine::Run> run =
      Start({Gang(PTO_AIV, 4)}, [&](uint32_t, const pto_context& context) {
        busy_cores.push_back(engine_->chip_use(0).busy_cores);
        cores.insert(context.core);
        EXPECT_EQ(context.block_count, 4u);
        EXPECT_EQ(context.member_count, 1u);
        return 0;
      });
  RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(busy_cores, (std::vector<uint32_t>{4, 3, 2, 1}));
  EXPECT_EQ(cores.size(), 4u);
  EXPECT_EQ(run->counts().done, 1u);
  EXPECT_EQ(busy(), 0u);
}

TEST_F(EngineGangTest, AGroupIsOneTaskOnSeveralChips) {
  // Member, chip and block of each call.
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> calls;
  int after = 0;
  TestTask last;
  last.after = {0};
  std::shared_ptr<pto::engine::Run> run =
      Start({Group(2), last}, [&](uint32_t task, const pto_context& context) {
        if (task == 1) {
          EXPECT_EQ(calls.size(), 4u);
          ++after;
          return 0;
        }
        EXPECT_EQ(context.member_count, 2u);
        EXPECT_EQ(context.block_count, 2u);
        EXPECT_EQ(context.members[context.member_index], context.tensors);
        calls.insert({context.member_index, context.chip, context.block_index});
        return 0;
      });
  RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(calls, (std::set<std::tuple<uint32_t, uint32_t, uint32_t>>{
                       {0, 1, 0}, {0, 1, 1}, {1, 0, 0}, {1, 0, 1}}));
  EXPECT_EQ(after, 1);
  EXPECT_EQ(run->counts().done, 2u);
}

TEST_F(EngineGangTest, OneBadBlockFailsTheGroupOnce) {
  TestTask last;
  last.after = {0};
  std::shared_ptr<pto::engine::Run> run = Start(
      {Group(2), last},
      [&](uint32_t, const pto_context& context) { return context.member_index == 1 ? 5 : 0; });
  RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(run->counts().skipped, 1u);
  ASSERT_EQ(run->errors().size(), 2u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kKernelFailed));
  ExpectRankOne(run->errors()[0]);
}

TEST_F(EngineGangTest, AStalledMemberIsNamedWhenTheTasksTimeIsUp) {
  std::shared_ptr<pto::engine::Run> run = Start(
      {Group(2)},
      [&](uint32_t, const pto_context& context) {
        if (context.member_index == 1 && context.block_index == 0) {
          clock_.Advance(absl::Microseconds(5));
          timers_.RunDue();
          EXPECT_EQ(context.api->cancelled(&context), 1);
        }
        return 0;
      },
      /*help_ns=*/0, /*task_timeout_ns=*/5000);
  RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kTaskDeadline));
  EXPECT_THAT(std::string(run->errors()[0].message()),
              HasSubstr("the task's time of 5us is up in block 0 of 2"));
  ExpectRankOne(run->errors()[0]);
}

TEST_F(EngineGangTest, ACancelledGroupSaysWhereItWas) {
  std::shared_ptr<pto::engine::Run> run;
  run = Start({Group(2)}, [&](uint32_t, const pto_context& context) {
    if (context.member_index == 1) Cancel(*run);
    return 0;
  });
  RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kRunCancelled));
  EXPECT_THAT(std::string(run->errors()[0].message()),
              HasSubstr("by the test; task 0: was in block "));
  ExpectRankOne(run->errors()[0]);
}

TEST_F(EngineGangTest, WhatFollowsAGroupIsNoMemberOfIt) {
  TestTask here, there;
  here.after = there.after = {0};
  there.chip = 1;
  std::shared_ptr<pto::engine::Run> run =
      Start({Group(1), here, there}, [](uint32_t task, const pto_context& context) {
        if (task == 0) return 0;
        EXPECT_EQ(context.member_index, 0u);
        EXPECT_EQ(context.member_count, 1u);
        return 5;
      });
  RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().failed, 2u);
  EXPECT_EQ(busy(), 0u);
}

TEST_F(EngineGangTest, LanesShareACluster) {
  TestTask mixed;
  mixed.core = PTO_MIX;
  mixed.block_num = 3;  // more than there are clusters
  mixed.vector_kernels = 2;
  std::map<uint32_t, std::set<uint32_t>> cores;  // by block
  uint32_t calls = 0;
  std::shared_ptr<pto::engine::Run> run = Start({mixed}, [&](uint32_t, const pto_context& context) {
    ++calls;
    EXPECT_EQ(context.core_kind, static_cast<uint32_t>(PTO_MIX));
    const uint32_t cluster = context.core < 2 ? context.core : (context.core - 2) / 2;
    EXPECT_EQ(context.core, context.lane == 0 ? cluster : 2 + 2 * cluster + context.lane - 1);
    cores[context.block_index].insert(context.core);
    return 0;
  });
  RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(calls, 9u);
  EXPECT_EQ(cores.size(), 3u);
  for (const auto& [block, used] : cores) EXPECT_EQ(used.size(), 3u) << block;
  EXPECT_EQ(run->counts().done, 1u);
  EXPECT_EQ(busy(), 0u);
}

TEST_F(EngineGangTest, CancelTakesWaitingGangsBack) {
  std::shared_ptr<pto::engine::Run> waiting = Prepare({Group(4), Group(4)});
  bool nothing_more = false;
  std::shared_ptr<pto::engine::Run> run = Start({{}}, [&](uint32_t, const pto_context&) {
    // This block holds a core, so both gangs wait, the second one behind the first.
    engine_->Start(waiting);
    EXPECT_EQ(engine_->chip_use(0).ready_tasks, 2u);
    nothing_more = !engine_->RunOne();
    Cancel(*waiting);
    return 0;
  });
  RunAll();
  EXPECT_TRUE(nothing_more);
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(waiting->state(), RunState::kCancelled);
  EXPECT_EQ(engine_->chip_use(0).ready_tasks, 0u);
  EXPECT_EQ(engine_->chip_use(1).ready_tasks, 0u);
  EXPECT_EQ(busy(), 0u);
  // All cores are there for the next one.
  std::shared_ptr<pto::engine::Run> next =
      Start({Gang(PTO_MIX, 3, 1)}, [](uint32_t, const pto_context&) { return 0; });
  RunAll();
  EXPECT_EQ(next->state(), RunState::kSucceeded);
}

TEST_F(EngineGangTest, CancelAfterThePlacementStartsNothingMore) {
  uint32_t calls = 0;
  std::shared_ptr<pto::engine::Run> run;
  run = Start({Group(4)}, [&](uint32_t, const pto_context&) {
    if (++calls == 2) Cancel(*run);
    return 0;
  });
  RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(calls, 2u);
  EXPECT_EQ(run->counts().done, 0u);
  EXPECT_EQ(busy(), 0u);
}

TEST_F(EngineGangTest, ACancelledRunDoesNotQueueItsNextGang) {
  TestTask gang = Group(4);
  gang.after = {0};
  std::shared_ptr<pto::engine::Run> run;
  uint32_t calls = 0;
  run = Start({{}, gang}, [&](uint32_t, const pto_context&) {
    ++calls;
    Cancel(*run);
    return 0;
  });
  RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(calls, 1u);
}

// A chain stays on its core; but not when a gang needs it.
TEST_F(EngineGangTest, AChainGivesItsCoreToAGang) {
  std::vector<TestTask> chain(40);
  for (uint32_t i = 0; i < chain.size(); ++i) {
    chain[i].core = PTO_AIC;
    if (i > 0) chain[i].after = {i - 1};
  }
  std::shared_ptr<pto::engine::Run> gang = Prepare({Gang(PTO_AIC, 2)});
  uint32_t in_chain = 0;
  std::vector<uint32_t> at_gang;
  std::shared_ptr<pto::engine::Run> run = Start(chain, [&](uint32_t, const pto_context& context) {
    if (context.block_count > 1) {
      at_gang.push_back(in_chain);
    } else if (++in_chain == 3) {
      engine_->Start(gang);
    }
    return 0;
  });
  RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(gang->state(), RunState::kSucceeded);
  ASSERT_EQ(at_gang.size(), 2u);
  EXPECT_EQ(at_gang[0], 3u);
}

TEST_F(EngineGangTest, HelpingRunsGangsToo) {
  uint32_t calls = 0;
  TestTask second = Gang(PTO_AIC, 3, 1);
  second.after = {0};
  std::shared_ptr<pto::engine::Run> run = Start(
      {Group(2, PTO_MIX), second},
      [&](uint32_t, const pto_context&) {
        ++calls;
        return 0;
      },
      kLong);
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(calls, 7u);
}

}  // namespace
}  // namespace pto::engine

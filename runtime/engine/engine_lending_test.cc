#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::engine::testing::TestTask;

// Gangs that cannot start yet, beside tasks that could use the cores meanwhile. Block by block, on
// one thread.
class EngineLendingTest : public ::testing::Test {
 protected:
  // A run of tasks that call the body which was given to it last, of all such runs.
  std::shared_ptr<pto::engine::Run> Start(const std::vector<TestTask>& tasks,
                                          Priority priority = Priority::kNormal) {
    RunSpec spec;
    spec.image = MakeTestGraph(tasks, node_.clusters, [this](uint32_t, const pto_context& context) {
      order_ += context.block_count > 1 || context.member_count > 1 ? 'g' : 'p';
      return 0;
    });
    spec.priority = priority;
    std::shared_ptr<pto::engine::Run> run = node_.engine->Prepare(std::move(spec));
    node_.engine->Start(run);
    return run;
  }
  // Blocks that wait until word 0 is 1.
  std::shared_ptr<pto::engine::Run> StartHold(uint32_t blocks, uint32_t chip = 0) {
    std::shared_ptr<pto::engine::Run> hold =
        node_.Start({{.kernel = "waits", .chip = chip, .block_num = blocks}}, wait_);
    node_.RunAll();
    return hold;
  }
  static TestTask Gang(uint32_t blocks, uint32_t chip = 0) {
    TestTask task;
    task.chip = chip;
    task.block_num = blocks;
    task.sync_start = true;
    return task;
  }
  static TestTask Group(uint32_t blocks) {
    TestTask task;
    task.block_num = blocks;
    task.members = {0, 1};
    return task;
  }
  static TestTask Plain(uint32_t chip = 0) {
    TestTask task;
    task.chip = chip;
    return task;
  }

  SlowEngine node_{{24, 24}};
  const KernelBody wait_ = [this](uint32_t, const pto_context& context) {
    const pto_signal signal = node_.signal(0);
    return context.api->wait(&context, &signal, PTO_EQ, 1, 0);
  };
  std::string order_;
};

TEST_F(EngineLendingTest, IdleCoresAreLentWhileAGangWaitsForBlocksThatWait) {
  auto hold = StartHold(30);
  auto gang = Start({Gang(30)});
  auto plain = Start({Plain(), Plain()});
  node_.RunAll();
  EXPECT_EQ(plain->state(), RunState::kSucceeded);
  EXPECT_EQ(gang->state(), RunState::kQueued);
  node_.Notify(0, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(hold->state(), RunState::kSucceeded);
  EXPECT_EQ(gang->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

TEST_F(EngineLendingTest, AGangOverTwoChipsKeepsNoIdleChipFromOthers) {
  auto hold = StartHold(48);
  auto gang = Start({Group(48)});
  auto plain = Start({Plain(1)});
  auto other = Start({Gang(48, 1)});
  node_.RunAll();
  EXPECT_EQ(plain->state(), RunState::kSucceeded);
  EXPECT_EQ(other->state(), RunState::kSucceeded);
  EXPECT_EQ(gang->state(), RunState::kQueued);
  node_.Notify(0, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(gang->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

TEST_F(EngineLendingTest, ATaskThatAHoldWaitsForRunsAlsoBehindAGang) {
  const KernelBody body = [&](uint32_t task, const pto_context& context) {
    const pto_signal signal = node_.signal(0);
    if (task == 0) return context.api->wait(&context, &signal, PTO_EQ, 1, 0);
    if (task == 3) context.api->notify(&context, &signal, PTO_SET, 1);
    return 0;
  };
  // The gang comes when the first task has its cores.
  auto run = node_.Start({{.kernel = "waits", .block_num = 30},
                          {.kernel = "waits"},
                          {.after = {1}, .block_num = 30, .together = true},
                          {.kernel = "waits", .after = {1}}},
                         body);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

// The bound: once the blocks in its way have ended, no task of its class starts before the gang
// but for those that had its cores then.
TEST_F(EngineLendingTest, AGangStartsWhenItsCoresCanBeFree) {
  auto hold = StartHold(30);
  auto gang = Start({Gang(48)});
  auto plain = Start(std::vector<TestTask>(500, Plain()));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(node_.engine->RunOne());
  const std::string before = order_;
  EXPECT_EQ(before.find('g'), std::string::npos);
  node_.Notify(0, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(gang->state(), RunState::kSucceeded);
  EXPECT_EQ(plain->state(), RunState::kSucceeded);
  const size_t first = order_.find('g');
  ASSERT_NE(first, std::string::npos);
  // The 30 blocks of the hold end one by one, each beside a task on another core.
  EXPECT_LE(first, before.size() + 48);
  EXPECT_EQ(order_.substr(first, 48), std::string(48, 'g'));
  node_.ExpectClean();
}

TEST_F(EngineLendingTest, PatienceEndsAlsoWithBlocksThatRunOn) {
  std::shared_ptr<pto::engine::Run> gang, plain;
  const KernelBody long_body = [&](uint32_t, const pto_context&) {
    gang = Start({Gang(48)});
    plain = Start({Plain()});
    // Most blocks end soon, so the gang keeps the other cores for a while.
    EXPECT_FALSE(node_.engine->RunOne());
    node_.clock.Advance(absl::Milliseconds(10));
    node_.timers.RunDue();
    EXPECT_TRUE(node_.engine->RunOne());
    EXPECT_EQ(plain->state(), RunState::kSucceeded);
    return 0;
  };
  auto runs_on = node_.Start({{}}, long_body);
  node_.RunAll();
  EXPECT_EQ(runs_on->state(), RunState::kSucceeded);
  EXPECT_EQ(gang->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

TEST_F(EngineLendingTest, AHigherClassDoesNotWaitForCoresThatAGangHasCollected) {
  std::shared_ptr<pto::engine::Run> low, high;
  const KernelBody long_body = [&](uint32_t, const pto_context&) {
    low = Start({Group(48)}, Priority::kLow);
    EXPECT_FALSE(node_.engine->RunOne());
    high = Start({Plain(1)}, Priority::kHigh);
    EXPECT_TRUE(node_.engine->RunOne());
    EXPECT_EQ(high->state(), RunState::kSucceeded);
    return 0;
  };
  auto runs_on = node_.Start({{}}, long_body);
  node_.RunAll();
  EXPECT_EQ(low->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

// Not even when the thread would look at another chip first.
TEST_F(EngineLendingTest, AHigherClassGoesFirstOnWhateverChipItIs) {
  auto low = Start(std::vector<TestTask>(10, Plain(0)), Priority::kLow);
  auto high = Start({Plain(1)}, Priority::kHigh);
  EXPECT_TRUE(node_.engine->RunOne());
  EXPECT_EQ(high->state(), RunState::kSucceeded);
  node_.RunAll();
  EXPECT_EQ(low->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

// A chip where a task of the highest class gets no core is no reason to take its lowest ones first.
TEST_F(EngineLendingTest, ClassesGoFirstAlsoBehindATaskThatGetsNoCore) {
  auto hold = StartHold(48);
  auto stuck = Start({Plain(0)}, Priority::kHigh);
  TestTask cube = Plain(0);
  cube.core = PTO_AIC;
  auto low = Start({cube}, Priority::kLow);
  auto normal = Start({Plain(1)});
  EXPECT_TRUE(node_.engine->RunOne());
  EXPECT_EQ(normal->state(), RunState::kSucceeded);
  EXPECT_EQ(low->state(), RunState::kQueued);
  node_.RunAll();
  EXPECT_EQ(low->state(), RunState::kSucceeded);
  node_.Notify(0, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(stuck->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

// A task of a higher class is not kept waiting by the blocks of a gang that no thread has begun.
TEST_F(EngineLendingTest, AHigherClassGoesBetweenTheBlocksOfAGang) {
  auto low = Start({Gang(40)}, Priority::kLow);
  EXPECT_TRUE(node_.engine->RunOne());
  auto high = Start({Plain()}, Priority::kHigh);
  EXPECT_TRUE(node_.engine->RunOne());
  EXPECT_EQ(high->state(), RunState::kSucceeded);
  EXPECT_EQ(order_, "gp");
  node_.RunAll();
  EXPECT_EQ(low->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

}  // namespace
}  // namespace pto::engine

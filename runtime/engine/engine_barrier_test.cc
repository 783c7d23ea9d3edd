// Blocks that start together and meet.

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "runtime/base/status_matchers.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::testing::HasReason;

SlowTask Gang(uint32_t blocks) {
  return {.kernel = "waits", .block_num = blocks, .together = true};
}

// In every round each block adds 1; after the barrier all must have.
void MeetOften(SlowEngine& node, uint32_t blocks, int rounds) {
  std::atomic<int> early{0};
  std::atomic<uint32_t> sum{0};
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    for (int round = 1; round <= rounds; ++round) {
      ++sum;
      const pto_scope scope = round % 2 == 0 ? PTO_SCOPE_TASK : PTO_SCOPE_CHIP;
      if (context.api->barrier(&context, scope) != PTO_OK) return 1;
      if (sum < round * blocks) ++early;
      // Nobody adds for the next round before all have looked.
      if (context.api->barrier(&context, scope) != PTO_OK) return 1;
    }
    return 0;
  };
  std::shared_ptr<pto::engine::Run> run = node.Start({Gang(blocks)}, body);
  if (node.engine->executors() == 0) {
    node.RunAll();
  } else {
    node.observer->WaitFinished();
  }
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(early, 0);
  EXPECT_EQ(sum, static_cast<uint32_t>(rounds) * blocks);
}

TEST(EngineBarrierTest, AllMeetEveryTime) {
  SlowEngine node({4});
  MeetOften(node, 8, 20);
  node.ExpectClean();
}

TEST(EngineBarrierTest, OverTwoExecutors) {
  SlowEngine node({576}, 2);
  MeetOften(node, 1152, 5);
}

TEST(EngineBarrierTest, ABlockAloneNeedNotWait) {
  SlowEngine node({1});
  const KernelBody body = [](uint32_t, const pto_context& context) {
    return context.api->barrier(&context, PTO_SCOPE_TASK);
  };
  std::shared_ptr<pto::engine::Run> run = node.Start({{.kernel = "waits"}}, body);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
}

TEST(EngineBarrierTest, BlocksThatDoNotStartTogetherCannotMeet) {
  SlowEngine node({2});
  const KernelBody body = [](uint32_t, const pto_context& context) {
    EXPECT_EQ(context.api->barrier(&context, PTO_SCOPE_TASK), PTO_NOT_ALLOWED);
    return 0;
  };
  std::shared_ptr<pto::engine::Run> run = node.Start({{.kernel = "waits", .block_num = 2}}, body);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
}

TEST(EngineBarrierTest, ABlockThatEndsBreaksIt) {
  SlowEngine node({2});
  std::vector<int32_t> results;
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    EXPECT_EQ(context.api->barrier(&context, PTO_SCOPE_TASK), PTO_OK);
    if (context.block_index == 3) return 9;
    results.push_back(context.api->barrier(&context, PTO_SCOPE_TASK));
    return results.back();
  };
  std::shared_ptr<pto::engine::Run> run = node.Start({Gang(4), {.after = {0}}}, body);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(results, (std::vector<int32_t>{PTO_BROKEN, PTO_BROKEN, PTO_BROKEN}));
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(run->counts().skipped, 1u);
  node.ExpectClean();
}

TEST(EngineBarrierTest, CancelEndsIt) {
  SlowEngine node({2});
  std::vector<int32_t> results;
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node.signal(0);
    results.push_back(context.block_index == 0 ? context.api->wait(&context, &signal, PTO_EQ, 1, 0)
                                               : context.api->barrier(&context, PTO_SCOPE_CHIP));
    return results.back();
  };
  std::shared_ptr<pto::engine::Run> run = node.Start({Gang(4)}, body);
  node.RunAll();
  EXPECT_EQ(node.engine->waiting(), 4u);
  node.Cancel(*run);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(results.size(), 4u);
  node.ExpectClean();
}

TEST(EngineBarrierTest, WhoDoesNotComeIsMissed) {
  SlowEngine node({2});
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node.signal(0);
    return context.block_index == 0 ? context.api->wait(&context, &signal, PTO_EQ, 1, 1'000'000'000)
                                    : context.api->barrier(&context, PTO_SCOPE_TASK);
  };
  RunSpec spec;
  spec.wait_timeout_ns = 1000;
  std::shared_ptr<pto::engine::Run> run = node.Start({Gang(3)}, body, spec);
  node.RunAll();
  node.clock.Advance(absl::Microseconds(1));
  node.timers.RunDue();
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kRunning);
  node.Notify(0, PTO_SET, 1);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kWaitTimeout));
  EXPECT_NE(run->errors()[0].message().find("2 of 3 came to the barrier"), std::string::npos)
      << run->errors()[0];
  node.ExpectClean();
}

}  // namespace
}  // namespace pto::engine

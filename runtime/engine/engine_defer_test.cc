// Tasks that end later than their blocks, and copies that kernels begin.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/status_matchers.h"
#include "runtime/engine/snapshot/diagnosis.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::testing::HasReason;

class EngineDeferTest : public ::testing::Test {
 protected:
  // Registers that the task ends when the words from `first` on, `count` of them, are 1.
  static int32_t DeferAll(SlowEngine& node, const pto_context& context, uint32_t first,
                          uint32_t count, int64_t timeout = 0) {
    for (uint32_t i = first; i < first + count; ++i) {
      const pto_signal signal = node.signal(i);
      if (context.api->defer(&context, &signal, PTO_EQ, 1, timeout) != PTO_OK) return 1;
    }
    return 0;
  }

  SlowEngine node_{{1}};
  std::vector<uint32_t> order_;
};

TEST_F(EngineDeferTest, ATaskEndsWithItsLastCondition) {
  for (const char* kernel : {"plain", "waits"}) {
    for (const uint32_t blocks : {1u, 2u}) {
      order_.clear();
      for (uint32_t i = 0; i < 8; ++i) *node_.word(i) = 0;
      const KernelBody body = [&](uint32_t task, const pto_context& context) {
        if (task != 0) {
          order_.push_back(task);
          return 0;
        }
        return DeferAll(node_, context, 4 * context.block_index, 4);
      };
      std::shared_ptr<pto::engine::Run> run =
          node_.Start({{.kernel = kernel, .block_num = blocks}, {.after = {0}}}, body);
      node_.RunAll();
      for (uint32_t i = 0; i < 4 * blocks; ++i) {
        EXPECT_EQ(run->state(), RunState::kRunning);
        // The cores are free meanwhile.
        EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 0u);
        EXPECT_TRUE(order_.empty());
        node_.Notify(i, PTO_SET, 1);
        node_.RunAll();
      }
      EXPECT_EQ(run->state(), RunState::kSucceeded) << kernel << " " << blocks;
      EXPECT_EQ(order_, std::vector<uint32_t>{1});
      EXPECT_EQ(node_.observer->records().size(), 2u);
      node_.ExpectClean();
    }
  }
}

TEST_F(EngineDeferTest, AForeignWordDefersUntilSomebodyLooks) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal word = {node_.word(0), PTO_U64};
    return context.api->defer(&context, &word, PTO_GE, INT64_MIN, 0);
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start({{}}, body);
  node_.RunAll();
  *node_.word(0) = INT64_MAX;
  EXPECT_EQ(node_.engine->LookAtForeignWords(), 1u);
  const EngineNow now = node_.engine->Look();
  const RunDiagnosis explained = Diagnosis(now).Explain(0, 0, 1000, 10);
  ASSERT_EQ(explained.obstacles.size(), 1u);
  EXPECT_EQ(explained.obstacles[0].kind, Obstacle::Kind::kSignal);
  EXPECT_TRUE(explained.obstacles[0].can_end) << "nobody knows who writes it";
  EXPECT_EQ(run->state(), RunState::kRunning);
  // More than any word with a sign.
  *node_.word(0) = -1;
  EXPECT_EQ(node_.engine->LookAtForeignWords(), 0u);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

TEST_F(EngineDeferTest, AForeignWordOverItsTimeSaysWhatItHas) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal word = {node_.word(0), PTO_U64};
    EXPECT_EQ(context.api->wait(&context, &word, PTO_GE, 1, 0), PTO_INVALID) << "only deferred";
    return context.api->defer(&context, &word, PTO_GE, -1, 1000);
  };
  *node_.word(0) = -2;
  std::shared_ptr<pto::engine::Run> run = node_.Start({{.kernel = "waits"}}, body);
  node_.RunAll();
  node_.clock.Advance(absl::Nanoseconds(1000));
  node_.timers.RunDue();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kWaitTimeout));
  EXPECT_THAT(std::string(run->errors()[0].message()),
              ::testing::HasSubstr(">= 18446744073709551615, had 18446744073709551614"));
  node_.ExpectClean();
}

TEST_F(EngineDeferTest, WhatHoldsAlreadyDefersNothing) {
  *node_.word(0) = 1;
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    return DeferAll(node_, context, 0, 1);
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start({{}, {.after = {0}}}, body);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
}

TEST_F(EngineDeferTest, AConditionMetBeforeTheBlockReturnsEndsItThere) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const int32_t code = DeferAll(node_, context, 0, 1);
    node_.Notify(0, PTO_SET, 1);
    return code;
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start({{}, {.after = {0}}}, body);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(run->counts().done, 2u);
  node_.ExpectClean();
}

TEST_F(EngineDeferTest, ConditionsOverTheirTimeFailTheirTaskOnly) {
  const KernelBody body = [&](uint32_t task, const pto_context& context) {
    order_.push_back(task);
    return task == 0 ? DeferAll(node_, context, 0, 1, 1000) : 0;
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start({{}, {.after = {0}}, {}}, body);
  node_.RunAll();
  node_.clock.Advance(absl::Microseconds(1));
  node_.timers.RunDue();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(run->counts().skipped, 1u);
  EXPECT_EQ(run->counts().done, 1u);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kWaitTimeout));
  node_.ExpectClean();
}

TEST_F(EngineDeferTest, AFailedBlockStaysFailed) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    DeferAll(node_, context, 0, 1);
    return 5;
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start({{}, {.after = {0}}}, body);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kRunning);
  node_.Notify(0, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kKernelFailed));
  EXPECT_EQ(run->counts().skipped, 1u);
}

TEST_F(EngineDeferTest, CancelEndsDeferredTasks) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    return DeferAll(node_, context, 0, 3, 1'000'000);
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start({{}, {.after = {0}}, {.block_num = 3}}, body);
  node_.RunAll();
  EXPECT_EQ(node_.engine->waiting(), 12u);
  node_.Cancel(*run);
  EXPECT_EQ(run->state(), RunState::kCancelled);
  node_.ExpectClean();
}

TEST_F(EngineDeferTest, ThousandsOfConditions) {
  constexpr uint32_t kTasks = 3000;
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    return DeferAll(node_, context, 0, 2);
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start(std::vector<SlowTask>(kTasks), body);
  node_.RunAll();
  EXPECT_EQ(node_.engine->waiting(), 2 * kTasks);
  node_.Notify(0, PTO_SET, 1);
  node_.Notify(1, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(run->counts().done, kTasks);
}

TEST_F(EngineDeferTest, CopiesByEventAndBySignal) {
  for (uint32_t i = 0; i < 4; ++i) *node_.word(i) = 10 + i;
  const KernelBody body = [&](uint32_t task, const pto_context& context) -> int32_t {
    const pto_kernel_api& api = *context.api;
    const pto_tensor from = node_.words(0, 4);
    if (task == 0) {  // waits for it
      const pto_tensor to = node_.words(8, 4);
      pto_event event = 0;
      EXPECT_EQ(api.copy(&context, &to, &from, nullptr, PTO_SET, 0, &event), PTO_OK);
      EXPECT_EQ(api.wait_copy(&context, event, 0), PTO_OK);
      EXPECT_EQ(*node_.word(11), 13);
    } else if (task == 1) {  // ends with it
      const pto_tensor to = node_.words(16, 4);
      pto_event event = 0;
      EXPECT_EQ(api.copy(&context, &to, &from, nullptr, PTO_SET, 0, &event), PTO_OK);
      EXPECT_EQ(api.defer_copy(&context, event, 0), PTO_OK);
    } else if (task == 2) {
      EXPECT_EQ(*node_.word(19), 13);
      const pto_tensor to = node_.words(24, 4);
      const pto_signal done = node_.signal(40);
      EXPECT_EQ(api.copy(&context, &to, &from, &done, PTO_ADD, 2, nullptr), PTO_OK);
      return api.defer(&context, &done, PTO_GE, 2, 0);
    } else {
      EXPECT_EQ(*node_.word(27), 13);
    }
    return 0;
  };
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "waits"}, {}, {.after = {1}}, {.after = {2}}}, body);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

TEST_F(EngineDeferTest, CopiesStayInTheTasksMemory) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    int64_t local[4] = {};
    pto_tensor outside = node_.words(0, 4);
    outside.data = local;
    const pto_tensor inside = node_.words(8, 4);
    const pto_tensor shorter = node_.words(8, 3);
    const pto_tensor behind = node_.words(SlowEngine::kWords - 2, 4);
    const auto copy = [&](const pto_tensor& to, const pto_tensor& from) {
      return context.api->copy(&context, &to, &from, nullptr, PTO_SET, 0, nullptr);
    };
    EXPECT_EQ(copy(outside, inside), PTO_INVALID);
    EXPECT_EQ(copy(inside, outside), PTO_INVALID);
    EXPECT_EQ(copy(shorter, inside), PTO_INVALID);
    EXPECT_EQ(copy(inside, behind), PTO_INVALID);
    return 0;
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start({{}}, body);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
}

// The run keeps its memory until a copy that nobody waits for is over.
TEST_F(EngineDeferTest, ACopyKeepsItsRun) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_tensor from = node_.words(0, 4);
    const pto_tensor to = node_.words(8, 4);
    return context.api->copy(&context, &to, &from, nullptr, PTO_SET, 0, nullptr);
  };
  *node_.word(3) = 5;
  std::shared_ptr<pto::engine::Run> run = node_.Start({{}}, body);
  EXPECT_TRUE(node_.engine->RunOne());
  EXPECT_EQ(run->state(), RunState::kRunning);
  EXPECT_TRUE(node_.engine->RunOne());
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(*node_.word(11), 5);
}

}  // namespace
}  // namespace pto::engine

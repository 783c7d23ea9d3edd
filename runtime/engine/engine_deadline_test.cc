// Times of runs in the queue, of tasks and of waits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/status_matchers.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::testing::HasReason;
using ::testing::HasSubstr;

class EngineDeadlineTest : public ::testing::Test {
 protected:
  void Pass(absl::Duration time) {
    node_.clock.Advance(time);
    node_.timers.RunDue();
  }

  SlowEngine node_{{1}};
};

TEST_F(EngineDeadlineTest, AWaitHasATimeOfItsOwn) {
  int32_t result = 0;
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node_.signal(2);
    result = context.api->wait(&context, &signal, PTO_NE, 0, 1'000'000);
    return result;
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start({{.kernel = "waits"}}, body);
  node_.RunAll();
  Pass(absl::Microseconds(999));
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kRunning);
  Pass(absl::Microseconds(1));
  node_.RunAll();
  EXPECT_EQ(result, PTO_TIMED_OUT);
  EXPECT_EQ(run->state(), RunState::kFailed);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kWaitTimeout));
  EXPECT_EQ(run->errors()[0].message(),
            "task 0: block 0 waited for 'words'[2] != 0, had 0 after 1ms");
  node_.ExpectClean();
}

TEST_F(EngineDeadlineTest, AKernelMayGoOnAfterATimeout) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node_.signal(2);
    EXPECT_EQ(context.api->wait(&context, &signal, PTO_NE, 0, 1000), PTO_TIMED_OUT);
    return 0;
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start({{.kernel = "waits"}}, body);
  node_.RunAll();
  Pass(absl::Microseconds(1));
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_TRUE(run->errors().empty());
}

TEST_F(EngineDeadlineTest, ATaskHasATime) {
  const KernelBody body = [&](uint32_t task, const pto_context& context) -> int32_t {
    if (task == 1) return 0;
    const pto_signal signal = node_.signal(2);
    EXPECT_EQ(context.api->wait(&context, &signal, PTO_EQ, 1, 0), PTO_TIMED_OUT);
    EXPECT_EQ(context.api->cancelled(&context), 1);
    EXPECT_EQ(context.api->wait(&context, &signal, PTO_EQ, 1, 0), PTO_TIMED_OUT);
    return 0;  // whatever it says
  };
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "waits", .timeout_ns = 5000}, {}, {.after = {0}}}, body);
  node_.RunAll();
  Pass(absl::Microseconds(5));
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().done, 1u);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kTaskDeadline));
  EXPECT_EQ(run->errors()[0].message(),
            "task 0: the task's time of 5us is up; block 0 waited for 'words'[2] == 1, had 0");
  node_.ExpectClean();
}

TEST_F(EngineDeadlineTest, TheRunsTimeForTasksHoldsForAll) {
  // A plain one that is slow, one that ends in time, one that defers and one that only waits.
  const KernelBody body = [&](uint32_t task, const pto_context& context) -> int32_t {
    if (task == 0) {
      Pass(absl::Microseconds(7));
      EXPECT_EQ(context.api->cancelled(&context), 1);
      return 0;
    }
    const pto_signal signal = node_.signal(2);
    return task == 2 ? context.api->defer(&context, &signal, PTO_EQ, 1, 0) : 0;
  };
  RunSpec spec;
  spec.task_timeout_ns = 7000;
  std::shared_ptr<pto::engine::Run> run = node_.Start(
      {{}, {}, {.after = {1}}, {.kernel = "wait", .after = {1}, .scalars = {PTO_EQ, 1, 0}}}, body,
      spec);
  node_.RunAll();
  Pass(absl::Microseconds(7));
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().done, 1u);
  ASSERT_EQ(run->errors().size(), 3u);
  for (const absl::Status& error : run->errors()) {
    EXPECT_THAT(error, HasReason(reason::kTaskDeadline));
  }
  node_.ExpectClean();
}

TEST_F(EngineDeadlineTest, BlocksOfALateTaskDoNotBegin) {
  int calls = 0;
  const KernelBody body = [&](uint32_t, const pto_context&) {
    if (++calls == 2) Pass(absl::Microseconds(1));
    return 0;
  };
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.block_num = 10, .timeout_ns = 1000}}, body);
  node_.RunAll();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(run->state(), RunState::kFailed);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kTaskDeadline));
  EXPECT_THAT(std::string(run->errors()[0].message()),
              HasSubstr("the task's time of 1us is up in block 1 of 10"));
}

// The block that delays the others is at fault, although they came first.
TEST_F(EngineDeadlineTest, ABusyBlockIsNamedBeforeThoseThatWaitForIt) {
  const KernelBody body = [&](uint32_t, const pto_context& context) -> int32_t {
    if (context.block_index == 1) Pass(absl::Microseconds(5));
    return context.api->barrier(&context, PTO_SCOPE_TASK);
  };
  std::shared_ptr<pto::engine::Run> run = node_.Start(
      {{.kernel = "waits", .block_num = 2, .together = true, .timeout_ns = 5000}}, body);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kTaskDeadline));
  EXPECT_THAT(std::string(run->errors()[0].message()),
              HasSubstr("the task's time of 5us is up in block 1 of 2"));
  EXPECT_THAT(std::string(run->errors()[0].message()),
              HasSubstr("; block 0 waited for the others at a barrier"));
  node_.ExpectClean();
}

TEST_F(EngineDeadlineTest, TasksInTimeLeaveNoTimer) {
  const KernelBody body = [](uint32_t, const pto_context&) { return 0; };
  RunSpec spec;
  spec.task_timeout_ns = 7000;
  spec.queue_timeout_ns = 7000;
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{}, {.after = {0}}, {.block_num = 3}}, body, spec);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

TEST_F(EngineDeadlineTest, ARunHasATimeInTheQueue) {
  const KernelBody body = [](uint32_t, const pto_context&) { return 0; };
  RunSpec spec;
  spec.queue_timeout_ns = 1000;
  std::shared_ptr<pto::engine::Run> started = node_.Start({{}, {.after = {0}}, {}}, body, spec);
  ASSERT_TRUE(node_.engine->RunOne());
  std::shared_ptr<pto::engine::Run> queued = node_.Start({{}}, body, spec);
  Pass(absl::Microseconds(1));
  EXPECT_EQ(queued->state(), RunState::kFailed);
  EXPECT_THAT(queued->errors()[0], HasReason(reason::kQueueDeadline));
  EXPECT_EQ(started->state(), RunState::kRunning);
  node_.RunAll();
  EXPECT_EQ(started->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

}  // namespace
}  // namespace pto::engine

// Short tasks of lanes that are posted in trains.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status_matchers.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/testing/slow_testing.h"
#include "runtime/engine/testing/test_lane.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::engine::testing::TestLane;
using ::pto::testing::HasReason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class EngineTrainTest : public ::testing::Test {
 protected:
  static TestLane::Quirks Trains() {
    TestLane::Quirks quirks;
    quirks.max_steps = 6;
    return quirks;
  }

  // Of each post: its steps, or the one task that it is.
  std::vector<std::vector<uint32_t>> Posts() {
    std::vector<std::vector<uint32_t>> posts;
    for (const LanePost* const post : lane_->held()) {
      std::vector<uint32_t>& tasks = posts.emplace_back();
      for (const LaneStep& step : post->steps) tasks.push_back(step.task);
      if (tasks.empty()) tasks.push_back(post->task);
    }
    return posts;
  }
  // Starts a chain of so many tasks, and those behind it, and ends the first task: its kernel is
  // known to be short then.
  std::shared_ptr<pto::engine::Run> Begin(uint32_t chain, std::vector<SlowTask> more = {}) {
    std::vector<SlowTask> tasks(chain, SlowTask{.kernel = "far"});
    for (uint32_t i = 1; i < chain; ++i) tasks[i].after = {i - 1};
    tasks.insert(tasks.end(), more.begin(), more.end());
    std::shared_ptr<pto::engine::Run> run = node_.Start(tasks, body_);
    node_.RunAll();
    EXPECT_THAT(Posts(), ElementsAre(ElementsAre(0))) << "nobody knows how long it takes";
    lane_->Finish();
    node_.RunAll();
    return run;
  }
  void Pass(absl::Duration time) {
    node_.clock.Advance(time);
    node_.timers.RunDue();
  }
  void ExpectClean() {
    Pass(absl::Seconds(5));
    node_.ExpectClean();
    const PostTable::Counts counts = port_->counts();
    EXPECT_EQ(counts.outstanding, 0u);
    EXPECT_EQ(counts.posted, counts.answered + counts.lost);
  }

  SlowEngine node_{{4, 4}};
  const std::shared_ptr<TestLane> lane_ = std::make_shared<TestLane>("far", Trains());
  const std::shared_ptr<LanePort> port_ = node_.AddLane(lane_, "far");
  std::vector<uint32_t> ran_;
  uint32_t failing_ = 0xffffffff;
  const KernelBody body_ = [this](uint32_t task, const pto_context&) {
    ran_.push_back(task);
    return task == failing_ ? 7 : 0;
  };
};

TEST_F(EngineTrainTest, AChainIsPostedBeforeItsTasksHaveEnded) {
  std::shared_ptr<pto::engine::Run> run = Begin(12);
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(1, 2, 3, 4, 5, 6)));
  const LanePost& post = *lane_->held()[0];
  EXPECT_EQ(post.task, 1u);
  EXPECT_EQ(post.kernel, post.steps[0].kernel);
  EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 1u);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->counts().done, 7u);
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(7, 8, 9, 10, 11)));
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_THAT(ran_, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(run->counts().done, 12u);
  ExpectClean();
}

TEST_F(EngineTrainTest, TasksThatBecomeReadyTogetherShareAPost) {
  // The second one makes six ready, the last of which waits for one of them, too.
  std::vector<SlowTask> more;
  for (int i = 0; i < 6; ++i) more.push_back({.kernel = "far", .after = {1}});
  more.push_back({.kernel = "far", .after = {2, 7}});
  std::shared_ptr<pto::engine::Run> run = Begin(2, more);
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(1, 2)));
  lane_->Finish();
  node_.RunAll();
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(3, 4, 5, 6, 7, 8)))
      << "the last one has room, and waits for 7 alone";
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineTrainTest, TasksOfOtherKindsAndChipsAreNoPartOfATrain) {
  std::shared_ptr<pto::engine::Run> run =
      Begin(3, {{.kernel = "far", .after = {2}, .chip = 1},
                {.kernel = "far", .after = {2}, .block_num = 2},
                {.kernel = "far", .after = {2}, .timeout_ns = 1000},
                {.kernel = "silent", .after = {2}},
                {.kernel = "far", .after = {6}}});
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(1, 2)));
  lane_->Finish();
  node_.RunAll();
  EXPECT_THAT(Posts(), UnorderedElementsAre(ElementsAre(3), ElementsAre(4), ElementsAre(4),
                                            ElementsAre(5), ElementsAre(7)));
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineTrainTest, AFailedStepFailsItsTaskAlone) {
  // 1 to 4 are a chain, and 5 and 6 wait for 2.
  failing_ = 3;
  std::shared_ptr<pto::engine::Run> run =
      Begin(5, {{.kernel = "far", .after = {2}}, {.kernel = "far", .after = {5}}});
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(1, 2, 3, 4)));
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(run->counts().skipped, 1u);
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(5, 6)));
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().done, 5u);
  EXPECT_THAT(ran_, ElementsAre(0, 1, 2, 3, 5, 6));
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kKernelFailed));
  EXPECT_THAT(std::string(run->errors()[0].message()), HasSubstr("task 3: kernel 'far' failed"));
  ExpectClean();
}

TEST_F(EngineTrainTest, WhatALaneGivesBackIsPostedAgain) {
  std::vector<SlowTask> more(4, SlowTask{.kernel = "far", .after = {1}});
  std::shared_ptr<pto::engine::Run> run = Begin(2, more);
  lane_->Finish();
  node_.RunAll();
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(3, 4, 5)));
  lane_->FinishSteps(*lane_->held()[0], 2);
  node_.RunAll();
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(5)));
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_THAT(ran_, ElementsAre(0, 1, 2, 3, 4, 5));
  ExpectClean();
}

TEST_F(EngineTrainTest, AnIsolatedStepGoesOnAlone) {
  // 6 runs on the other chip when 1 has ended, and 7 when 3 has.
  std::shared_ptr<pto::engine::Run> run = Begin(
      6, {{.kernel = "far", .after = {1}, .chip = 1}, {.kernel = "far", .after = {3}, .chip = 1}});
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(1, 2, 3, 4, 5)));
  lane_->Isolate(*lane_->held()[0], 2);
  node_.RunAll();
  EXPECT_EQ(run->counts().done, 3u);
  // Whoever looks sees the task that runs.
  const EngineNow now = node_.engine->Look();
  EXPECT_TRUE(std::any_of(now.chips[0].cores.begin(), now.chips[0].cores.end(),
                          [](const CoreNow& core) { return core.posted && core.task == 3; }));
  ASSERT_EQ(lane_->held().size(), 2u);
  EXPECT_THAT(Posts()[1], ElementsAre(6));
  // Again: ignored.
  lane_->reports()->Isolate(lane_->held()[0]->id, 0);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->counts().done, 5u);
  EXPECT_THAT(Posts(), UnorderedElementsAre(ElementsAre(4, 5), ElementsAre(7)));
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_THAT(ran_, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  ExpectClean();
}

TEST_F(EngineTrainTest, ReadyTasksBehindAnIsolatedOneRunMeanwhile) {
  std::vector<SlowTask> more(4, SlowTask{.kernel = "far", .after = {1}});
  std::shared_ptr<pto::engine::Run> run = Begin(2, more);
  lane_->Finish();
  node_.RunAll();
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(3, 4, 5)));
  lane_->Isolate(*lane_->held()[0], 1);
  node_.RunAll();
  EXPECT_EQ(run->counts().done, 4u);
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(3, 4, 5), ElementsAre(5)));
  EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 2u);
  lane_->Finish({lane_->held()[1]});
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kRunning);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_THAT(ran_, ElementsAre(0, 1, 2, 3, 5, 4));
  ExpectClean();
}

TEST_F(EngineTrainTest, OnlyAnIsolatedStepMakesCalls) {
  std::shared_ptr<pto::engine::Run> run = Begin(4);
  const LanePost& post = *lane_->held()[0];
  LaneCall call;
  call.id = post.id;
  call.token = ~post.id;
  call.kind = LaneCall::Kind::kDefer;
  call.signal = node_.signal(5);
  call.how = PTO_GE;
  call.value = 1;
  EXPECT_FALSE(lane_->reports()->Call(call));
  lane_->Isolate(post, 1);
  EXPECT_TRUE(lane_->reports()->Call(call));
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->counts().done, 2u) << "its end is deferred";
  EXPECT_THAT(Posts(), IsEmpty());
  node_.Notify(5, PTO_SET, 1);
  node_.RunAll();
  EXPECT_THAT(Posts(), ElementsAre(ElementsAre(3)));
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineTrainTest, AStopEndsATrain) {
  std::shared_ptr<pto::engine::Run> run = Begin(4);
  const LanePost& post = *lane_->held()[0];
  node_.Cancel(*run);
  EXPECT_TRUE(post.cancelled);
  node_.RunAll();
  EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 1u) << "its post is still there";
  lane_->FinishSteps(post, 2);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  ExpectClean();
}

TEST_F(EngineTrainTest, AStopEndsAnIsolatedStep) {
  std::shared_ptr<pto::engine::Run> run = Begin(4);
  const LanePost& post = *lane_->held()[0];
  lane_->Isolate(post, 1);
  node_.Cancel(*run);
  EXPECT_TRUE(post.cancelled);
  node_.RunAll();
  EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 1u);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  ExpectClean();
}

TEST_F(EngineTrainTest, AStoppedRunTakesItsWaitingTasksAlong) {
  // More tasks than cores: the others wait in the queue, and some are roots of a graph all of whose
  // tasks are alike.
  Begin(1);
  std::shared_ptr<pto::engine::Run> run =
      node_.Start(std::vector<SlowTask>(100, SlowTask{.kernel = "far"}), body_);
  node_.RunAll();
  EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 8u);
  node_.Cancel(*run);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  ExpectClean();
}

TEST_F(EngineTrainTest, ALostTrainFailsOneTaskAndTheOthersCannotStart) {
  std::vector<SlowTask> more(4, SlowTask{.kernel = "far", .after = {1}});
  std::shared_ptr<pto::engine::Run> run = Begin(2, more);
  lane_->Finish();
  node_.RunAll();
  lane_->reports()->ReportDeath("it is gone");
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().failed, 3u);
  ASSERT_EQ(run->errors().size(), 3u);
  for (const absl::Status& error : run->errors()) {
    EXPECT_THAT(error, HasReason(reason::kHostLost));
  }
  EXPECT_THAT(std::string(run->errors()[0].message()), HasSubstr("task 3: kernel 'far' was lost"));
  EXPECT_THAT(std::string(run->errors()[1].message()), HasSubstr("could not start"));
  node_.ExpectClean();
}

TEST_F(EngineTrainTest, ATrainThatTakesLongIsRecalled) {
  std::shared_ptr<pto::engine::Run> run = Begin(4);
  const PostId id = lane_->held()[0]->id;
  Pass(absl::Microseconds(500));
  EXPECT_THAT(lane_->seen().recalls, IsEmpty());
  Pass(absl::Milliseconds(1));
  EXPECT_THAT(lane_->seen().recalls, ElementsAre(id));
  lane_->Isolate(*lane_->held()[0], 0);
  node_.RunAll();
  Pass(absl::Milliseconds(2));
  EXPECT_THAT(lane_->seen().recalls, ElementsAre(id)) << "it is no train any more";
  lane_->Finish();
  node_.RunAll();
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ExpectClean();
}

}  // namespace
}  // namespace pto::engine

// Tasks whose kernels run on a lane.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/snapshot/diagnosis.h"
#include "runtime/engine/testing/slow_testing.h"
#include "runtime/engine/testing/test_lane.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::TestLane;
using ::pto::testing::HasReason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EngineLaneTest : public ::testing::Test {
 protected:
  void Pass(absl::Duration time) {
    node_.clock.Advance(time);
    node_.timers.RunDue();
  }
  // Nothing is left of any run or post.
  void ExpectClean() {
    // The alarm for the grace of a post that was answered in time.
    Pass(absl::Seconds(5));
    node_.ExpectClean();
    const PostTable::Counts counts = port_->counts();
    EXPECT_EQ(counts.outstanding, 0u);
    EXPECT_EQ(counts.posted, counts.answered + counts.lost);
    EXPECT_EQ(lane_->seen().calls_after_kill, 0u);
    EXPECT_EQ(lane_->seen().broken_gangs, 0u);
  }

  SlowEngine node_{{4}};
  const std::shared_ptr<TestLane> lane_ = std::make_shared<TestLane>("far");
  const std::shared_ptr<LanePort> port_ = node_.AddLane(lane_, "far");
  const KernelBody body_ = [](uint32_t, const pto_context&) { return 0; };
};

TEST_F(EngineLaneTest, PostsNameTheirRunAndTheLaneLearnsOfItsEnd) {
  std::shared_ptr<pto::engine::Run> first =
      node_.Start({{.kernel = "far"}, {.kernel = "far"}}, body_);
  std::shared_ptr<pto::engine::Run> second = node_.Start({{.kernel = "far"}}, body_);
  // It has no post here.
  node_.Start({{}}, body_);
  node_.RunAll();
  // Runs take turns.
  const std::vector<const LanePost*> posts = lane_->held();
  ASSERT_EQ(posts.size(), 3u);
  const uint64_t run = posts[0]->run;
  EXPECT_EQ(posts[2]->run, run);
  const uint64_t other = posts[1]->run;
  EXPECT_NE(other, run);
  lane_->Finish({posts[1]});
  node_.RunAll();
  EXPECT_THAT(lane_->seen().ended_runs, ElementsAre(other));
  node_.engine->Stop(*first, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
  EXPECT_THAT(lane_->seen().ended_runs, ElementsAre(other)) << "its posts are still there";
  lane_->Finish();
  node_.RunAll();
  EXPECT_THAT(lane_->seen().ended_runs, ElementsAre(other, run));
  // The next one has a number of its own.
  node_.Start({{.kernel = "far"}}, body_);
  node_.RunAll();
  EXPECT_NE(lane_->held()[0]->run, run);
  EXPECT_NE(lane_->held()[0]->run, other);
  lane_->Finish();
  node_.RunAll();
  ExpectClean();
}

TEST_F(EngineLaneTest, APostHasAllThatACallHas) {
  std::vector<uint32_t> blocks;
  const KernelBody body = [&](uint32_t task, const pto_context& context) {
    if (task == 1) return 0;
    EXPECT_EQ(context.block_count, 3u);
    EXPECT_EQ(context.chip, 0u);
    EXPECT_EQ(context.core_kind, static_cast<uint32_t>(PTO_AIV));
    EXPECT_EQ(context.tensor_count, 1u);
    EXPECT_EQ(context.tensors[0].data, node_.word(0));
    EXPECT_EQ(context.tensors[0].shape[0], SlowEngine::kWords);
    EXPECT_EQ(context.members[0], context.tensors);
    blocks.push_back(context.block_index);
    return 0;
  };
  RunSpec spec;
  spec.timeout_ns = 1'000'000;
  std::shared_ptr<pto::engine::Run> run = node_.Start(
      {{.kernel = "far", .block_num = 3, .timeout_ns = 5000}, {.after = {0}}}, body, spec);
  node_.RunAll();
  ASSERT_EQ(lane_->held().size(), 3u);
  EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 3u);
  EXPECT_EQ(run->state(), RunState::kRunning);
  const LanePost& post = *lane_->held()[0];
  EXPECT_EQ(post.kernel->name(), "far");
  EXPECT_EQ(post.block_end, post.block + 1);
  EXPECT_EQ(post.gang_size, 0u);
  EXPECT_FALSE(post.cancelled);
  // That of the task comes before that of the run.
  EXPECT_EQ(post.deadline_ns, node_.clock.NowNanos() + 5000);
  lane_->Finish({lane_->held()[2], lane_->held()[0]});
  node_.RunAll();
  EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 1u);
  EXPECT_EQ(run->state(), RunState::kRunning);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_THAT(blocks, ElementsAre(2, 0, 1));
  ExpectClean();
}

TEST_F(EngineLaneTest, TasksFollowEachOtherOnAndOffTheLane) {
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "far"},
                   {.after = {0}},
                   {.kernel = "far", .after = {1}, .block_num = 2},
                   {.kernel = "waits", .after = {2}},
                   {.kernel = "far", .after = {3}}},
                  body_);
  for (int i = 0; i < 3; ++i) {
    node_.RunAll();
    EXPECT_EQ(run->state(), RunState::kRunning);
    lane_->Finish();
  }
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(run->counts().done, 5u);
  ExpectClean();
}

TEST_F(EngineLaneTest, BlocksThatAreTakenTogetherArePostedTogether) {
  // The thread that starts the run takes all blocks that have a core.
  node_.help_ns = 1'000'000;
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "far", .block_num = 5}, {.kernel = "far", .block_num = 20}}, body_);
  EXPECT_THAT(lane_->seen().posts, ElementsAre(8));
  lane_->Finish();
  node_.RunAll();
  lane_->Finish();
  node_.RunAll();
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kRunning);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineLaneTest, AFailedBlockHasItsPlace) {
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "far", .block_num = 2}, {.after = {0}}}, body_);
  node_.RunAll();
  std::vector<LaneResult> results;
  for (const LanePost* const post : lane_->held()) results.push_back({post->id, {}});
  results[1].status = absl::DataLossError("the disk is gone");
  lane_->reports()->Complete(absl::MakeSpan(results));
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(run->counts().skipped, 1u);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kKernelFailed));
  EXPECT_THAT(std::string(run->errors()[0].message()),
              HasSubstr("task 0: kernel 'far' failed in block 1 of 2 on chips/0 core "));
  EXPECT_THAT(std::string(run->errors()[0].message()), HasSubstr(": the disk is gone"));
  ExpectClean();
}

TEST_F(EngineLaneTest, BadAnswersAreIgnoredAndCounted) {
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "far"}, {.kernel = "far"}}, body_);
  node_.RunAll();
  ASSERT_EQ(lane_->held().size(), 2u);
  const PostId id = lane_->held()[0]->id;
  lane_->reports()->Complete(0, absl::OkStatus());
  lane_->reports()->Complete(id + (PostId{1} << 40), absl::OkStatus());
  lane_->reports()->Complete(12345, absl::OkStatus());
  EXPECT_EQ(port_->counts().ignored, 3u);
  lane_->reports()->Complete(id, absl::OkStatus());
  lane_->reports()->Complete(id, absl::OkStatus());
  node_.RunAll();
  lane_->reports()->Complete(id, absl::OkStatus());
  EXPECT_EQ(port_->counts().ignored, 5u);
  EXPECT_EQ(run->state(), RunState::kRunning);
  lane_->reports()->Complete(lane_->held()[1]->id, absl::OkStatus());
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineLaneTest, ACancelledRunWaitsForItsPosts) {
  std::shared_ptr<pto::engine::Run> run = node_.Start({{.kernel = "far", .block_num = 2}}, body_);
  node_.RunAll();
  const std::vector<const LanePost*> posts = lane_->held();
  node_.Cancel(*run);
  EXPECT_THAT(lane_->seen().cancels, ElementsAre(posts[0]->id, posts[1]->id));
  EXPECT_TRUE(posts[0]->cancelled);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelling);
  EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 2u);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  ExpectClean();
}

TEST_F(EngineLaneTest, ALaneThatDoesNotAnswerIsKilled) {
  std::shared_ptr<pto::engine::Run> run = node_.Start({{.kernel = "far"}}, body_);
  std::shared_ptr<pto::engine::Run> other =
      node_.Start({{.kernel = "far"}, {.after = {0}}, {}}, body_);
  node_.RunAll();
  ASSERT_EQ(lane_->held().size(), 2u);
  node_.Cancel(*run);
  Pass(absl::Milliseconds(4999));
  node_.RunAll();
  EXPECT_EQ(lane_->seen().kills, 0u);
  EXPECT_EQ(run->state(), RunState::kCancelling);
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(lane_->seen().kills, 1u);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  // The other one is not at fault, but its block is gone.
  EXPECT_EQ(other->state(), RunState::kFailed);
  EXPECT_EQ(other->counts().done, 1u);
  EXPECT_EQ(other->counts().skipped, 1u);
  ASSERT_EQ(other->errors().size(), 1u);
  EXPECT_THAT(other->errors()[0], HasReason(reason::kHostLost));
  EXPECT_THAT(std::string(other->errors()[0].message()),
              HasSubstr("kernel 'far' was lost in block 0 of 1 on chips/0 core"));
  EXPECT_THAT(std::string(other->errors()[0].message()),
              HasSubstr("lane 'far' was lost: it did not end a cancelled block within 5s"));
  EXPECT_EQ(port_->counts().lost, 2u);
  ExpectClean();
}

TEST_F(EngineLaneTest, ALostLaneRefusesPosts) {
  std::shared_ptr<pto::engine::Run> first = node_.Start({{.kernel = "far"}}, body_);
  node_.RunAll();
  const PostId id = lane_->held()[0]->id;
  lane_->reports()->ReportDeath("signal 11", id);
  lane_->reports()->ReportDeath("signal 12", 0);
  node_.RunAll();
  EXPECT_EQ(first->state(), RunState::kFailed);
  EXPECT_THAT(first->errors()[0], HasReason(reason::kHostLost));
  EXPECT_THAT(std::string(first->errors()[0].message()),
              HasSubstr("signal 11, in task 0: kernel 'far' in block 0 of 1"));
  EXPECT_EQ(lane_->seen().kills, 1u);
  std::shared_ptr<pto::engine::Run> second = node_.Start(
      {{.kernel = "far"}, {.kernel = "far", .block_num = 3, .together = true}, {}}, body_);
  node_.RunAll();
  EXPECT_EQ(second->state(), RunState::kFailed);
  EXPECT_EQ(second->counts().failed, 2u);
  EXPECT_EQ(second->counts().done, 1u);
  EXPECT_THAT(second->errors()[0], HasReason(reason::kHostLost));
  EXPECT_THAT(std::string(second->errors()[0].message()), HasSubstr("could not start"));
  lane_->reports()->Complete(id, absl::OkStatus());
  EXPECT_EQ(port_->counts().ignored, 1u);
  EXPECT_EQ(port_->counts().posted, 1u);
  ExpectClean();
}

TEST_F(EngineLaneTest, ATaskHasATime) {
  std::shared_ptr<pto::engine::Run> run = node_.Start(
      {{.kernel = "far", .timeout_ns = 5000}, {.kernel = "far"}, {.after = {0}}}, body_);
  node_.RunAll();
  const std::vector<const LanePost*> posts = lane_->held();
  ASSERT_EQ(posts.size(), 2u);
  Pass(absl::Microseconds(5));
  // Only the one that is late.
  EXPECT_EQ(lane_->seen().cancels.size(), 1u);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_EQ(run->counts().done, 1u);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kTaskDeadline));
  EXPECT_EQ(lane_->seen().kills, 0u);
  ExpectClean();
}

TEST_F(EngineLaneTest, TheTimeOfATaskEndsItOnALaneThatDoesNotAnswer) {
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "far", .timeout_ns = 5000}}, body_);
  node_.RunAll();
  Pass(absl::Microseconds(5));
  Pass(absl::Seconds(5));
  EXPECT_EQ(lane_->seen().kills, 1u);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  ASSERT_EQ(run->errors().size(), 1u);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kTaskDeadline));
  EXPECT_THAT(std::string(run->errors()[0].message()),
              HasSubstr("it did not end a cancelled block within 5s"));
  ExpectClean();
}

// A stop or a deadline may come between the look of a worker and its post.
TEST_F(EngineLaneTest, BlocksThatMustStopAreNotPosted) {
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "far", .block_num = 2, .timeout_ns = 5000}}, body_);
  node_.RunAll();
  ASSERT_EQ(lane_->seen().posts.size(), 2u);
  LanePort::Outgoing block;
  block.port = port_.get();
  block.ticket.run = run.get();
  block.long_task = run->long_tasks().Find(0);
  Pass(absl::Microseconds(5));
  port_->Post(absl::MakeSpan(&block, 1));
  EXPECT_EQ(block.refusal, LanePort::Outgoing::Refusal::kLate);
  node_.Cancel(*run);
  port_->Post(absl::MakeSpan(&block, 1));
  EXPECT_EQ(block.refusal, LanePort::Outgoing::Refusal::kStopped);
  EXPECT_EQ(lane_->seen().posts.size(), 2u);
  // Both were cancelled once, for their deadline.
  EXPECT_EQ(lane_->seen().cancels.size(), 2u);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  ExpectClean();
}

TEST_F(EngineLaneTest, AGangIsPostedTogether) {
  std::shared_ptr<pto::engine::Run> before =
      node_.Start({{.kernel = "far", .block_num = 6}}, body_);
  node_.RunAll();
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "far", .block_num = 4, .together = true}}, body_);
  node_.RunAll();
  // Two cores are free, which is not enough.
  ASSERT_EQ(lane_->held().size(), 6u);
  lane_->Finish({lane_->held()[0]});
  node_.RunAll();
  ASSERT_EQ(lane_->held().size(), 5u);
  lane_->Finish({lane_->held()[0]});
  node_.RunAll();
  ASSERT_EQ(lane_->held().size(), 8u);
  EXPECT_EQ(lane_->seen().posts.back(), 4u);
  EXPECT_EQ(lane_->held().back()->gang_size, 4u);
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineLaneTest, AGangOverSeveralChipsIsPostedTogether) {
  SlowEngine node{{2, 1}};
  const auto lane = std::make_shared<TestLane>("wide");
  const std::shared_ptr<LanePort> port = node.AddLane(lane, "wide");
  std::shared_ptr<pto::engine::Run> run =
      node.Start({{.kernel = "wide", .members = {1, 0}, .block_num = 2}}, body_);
  while (node.engine->RunOne()) {
  }
  EXPECT_THAT(lane->seen().posts, ElementsAre(4));
  std::vector<std::string> places;
  for (const LanePost* const post : lane->held()) {
    EXPECT_EQ(post->member_count, 2u);
    EXPECT_EQ(post->gang_size, 4u);
    EXPECT_NE(post->members[0], post->members[1]);
    places.push_back(absl::StrCat(post->member, " ", post->chip, " ", post->block));
  }
  EXPECT_THAT(places, ElementsAre("0 1 0", "0 1 1", "1 0 0", "1 0 1"));
  lane->Finish();
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  node.ExpectClean();
}

TEST_F(EngineLaneTest, TheCoresOfAClusterMayHaveSeveralLanes) {
  const auto other = std::make_shared<TestLane>("other");
  const std::shared_ptr<LanePort> port = node_.AddLane(other, "other");
  for (const bool together : {false, true}) {
    std::shared_ptr<pto::engine::Run> run = node_.Start({{.kernel = "far",
                                                          .vector_kernels = {"other", "far"},
                                                          .block_num = 2,
                                                          .together = together}},
                                                        body_);
    node_.RunAll();
    EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 6u);
    EXPECT_EQ(lane_->held().size(), 4u);
    ASSERT_EQ(other->held().size(), 2u);
    EXPECT_EQ(other->held()[0]->cluster_lane, 1u);
    EXPECT_EQ(other->held()[0]->kernel->name(), "other");
    EXPECT_EQ(other->held()[0]->gang_size, together ? 2u : 0u);
    lane_->Finish();
    node_.RunAll();
    // A cluster is free when its last core is.
    EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 6u);
    other->Finish({other->held()[1]});
    node_.RunAll();
    EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 3u);
    EXPECT_EQ(run->state(), RunState::kRunning);
    other->Finish();
    node_.RunAll();
    EXPECT_EQ(run->state(), RunState::kSucceeded);
  }
  ExpectClean();
}

TEST_F(EngineLaneTest, AClusterMayUseALaneAndTheEngine) {
  std::shared_ptr<pto::engine::Run> run = node_.Start(
      {{.kernel = "far", .vector_kernels = {"plain"}, .block_num = 2, .together = true}}, body_);
  node_.RunAll();
  ASSERT_EQ(lane_->held().size(), 2u);
  lane_->Finish();
  // The others end on threads of their own.
  while (!IsFinal(run->state())) {
    node_.RunAll();
    std::this_thread::yield();
  }
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  node_.observer->WaitFinished();
  EXPECT_TRUE(node_.engine->WaitIdle(absl::Seconds(20)));
}

TEST_F(EngineLaneTest, AGangOfAStoppedRunIsNotPosted) {
  std::shared_ptr<pto::engine::Run> run =
      node_.Start({{.kernel = "far", .block_num = 4, .together = true}}, body_);
  node_.Cancel(*run);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_TRUE(lane_->seen().posts.empty());
  ExpectClean();
}

TEST_F(EngineLaneTest, ASnapshotSaysWhereItRuns) {
  std::shared_ptr<pto::engine::Run> run = node_.Start({{.kernel = "far"}}, body_);
  node_.RunAll();
  const EngineNow now = node_.engine->Look();
  ASSERT_EQ(now.chips[0].cores.size(), 1u);
  EXPECT_TRUE(now.chips[0].cores[0].posted);
  EXPECT_TRUE(now.runs[0].moves);
  const RunDiagnosis busy = Diagnosis(now).Explain(0, 0, 1000, 10);
  EXPECT_EQ(busy.verdict, Verdict::kProgressing);
  const RunDiagnosis stalled = Diagnosis(now).Explain(0, 2000, 1000, 10);
  EXPECT_EQ(stalled.verdict, Verdict::kStalled);
  ASSERT_EQ(stalled.obstacles.size(), 1u);
  EXPECT_EQ(stalled.obstacles[0].kind, Obstacle::Kind::kKernel);
  EXPECT_EQ(stalled.obstacles[0].lane, "far");
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineLaneTest, TheEndOfTheEngineEndsItsPosts) {
  std::shared_ptr<pto::engine::Run> run = node_.Start({{.kernel = "far"}}, body_);
  node_.RunAll();
  const PostId id = lane_->held()[0]->id;
  node_.engine.reset();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(lane_->seen().kills, 1u);
  // Nobody is there any more.
  lane_->reports()->Complete(id, absl::OkStatus());
  lane_->reports()->ReportDeath("too late", 0);
}

TEST_F(EngineLaneTest, ALaneLivesAsLongAsItsKernels) {
  auto lane = std::make_shared<TestLane>("short");
  const std::weak_ptr<TestLane> watched = lane;
  node_.AddLane(std::move(lane), "brief");
  {
    std::shared_ptr<pto::engine::Run> run = node_.Start({{.kernel = "brief"}}, body_);
    node_.kernels.Remove("brief");
    node_.RunAll();
    ASSERT_FALSE(watched.expired());
    watched.lock()->Finish();
    node_.RunAll();
    EXPECT_EQ(run->state(), RunState::kSucceeded);
  }
  EXPECT_TRUE(watched.expired());
  ExpectClean();
}

}  // namespace
}  // namespace pto::engine

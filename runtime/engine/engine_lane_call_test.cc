// What kernels on lanes ask the engine for: waits, notices, barriers, copies and deferred ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/memory_account.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/snapshot/diagnosis.h"
#include "runtime/engine/testing/slow_testing.h"
#include "runtime/engine/testing/test_lane.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::engine::testing::TestLane;
using ::pto::testing::HasReason;
using ::testing::HasSubstr;
using Kind = LaneCall::Kind;

class EngineLaneCallTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kFlags = PTO_KERNEL_WAITS | PTO_KERNEL_NOTIFIES;

  void Script(std::vector<LaneCall> calls) {
    lane_->SetScript([calls = std::move(calls)](const LanePost&) { return calls; });
  }
  LaneCall Signal(Kind kind, uint32_t word, uint32_t how, int64_t value, int64_t timeout_ns = 0) {
    LaneCall call;
    call.kind = kind;
    call.signal = node_.signal(word);
    call.how = how;
    call.value = value;
    call.timeout_ns = timeout_ns;
    return call;
  }
  static LaneCall Meet(pto_scope scope) {
    LaneCall call;
    call.kind = Kind::kBarrier;
    call.how = scope;
    return call;
  }
  LaneCall Copy(uint32_t to, uint32_t from, int64_t count) {
    LaneCall call;
    call.kind = Kind::kCopy;
    call.to = node_.words(to, count);
    call.from = node_.words(from, count);
    return call;
  }
  static LaneCall Event(Kind kind, pto_event event) {
    LaneCall call;
    call.kind = kind;
    call.event = event;
    return call;
  }
  void Start(const std::vector<SlowTask>& tasks, const RunSpec& spec = {}) {
    run_ = node_.Start(tasks, body_, spec);
    node_.RunAll();
  }
  // Makes the next call of the only post. Returns whether it was answered at once.
  bool Call(size_t post = 0) {
    const uint64_t before = Answers();
    lane_->MakeCall(*lane_->held()[post]);
    return Answers() > before;
  }
  uint64_t Answers() {
    uint64_t answers = 0;
    for (const auto& [result, count] : lane_->seen().results) answers += count;
    return answers;
  }
  LaneAnswer last() { return lane_->seen().last.back(); }
  void Finish() {
    lane_->Finish();
    node_.RunAll();
  }
  void Pass(absl::Duration time) {
    node_.clock.Advance(time);
    node_.timers.RunDue();
  }
  std::string Error() {
    const std::vector<absl::Status> errors = run_->errors();
    return errors.empty() ? "" : std::string(errors[0].message());
  }
  void ExpectClean() {
    Pass(absl::Seconds(5));
    node_.ExpectClean();
    const PostTable::Counts counts = port_->counts();
    EXPECT_EQ(counts.outstanding, 0u);
    EXPECT_EQ(counts.posted, counts.answered + counts.lost);
    const TestLane::Seen seen = lane_->seen();
    EXPECT_EQ(seen.wrong_answers, 0u);
    EXPECT_EQ(seen.calls, counts.calls);
  }

  SlowEngine node_{{4}};
  const std::shared_ptr<TestLane> lane_ = std::make_shared<TestLane>("far");
  const std::shared_ptr<LanePort> port_ = node_.AddLane(lane_, "far", kFlags);
  KernelBody body_ = [](uint32_t, const pto_context&) { return 0; };
  std::shared_ptr<pto::engine::Run> run_;
};

TEST_F(EngineLaneCallTest, AWaitEndsWithItsSignal) {
  Script({Signal(Kind::kWait, 3, PTO_GE, 2)});
  Start({{.kernel = "far"}});
  EXPECT_FALSE(Call());
  EXPECT_EQ(node_.engine->waiting(), 1u);
  // Like each other wait.
  const EngineNow now = node_.engine->Look();
  const RunDiagnosis explained = Diagnosis(now).Explain(0, 0, 1000, 10);
  EXPECT_EQ(explained.verdict, Verdict::kDeadlocked);
  ASSERT_EQ(explained.obstacles.size(), 1u);
  EXPECT_EQ(explained.obstacles[0].kind, Obstacle::Kind::kSignal);
  EXPECT_EQ(explained.obstacles[0].element, 3u);
  EXPECT_EQ(explained.obstacles[0].want, 2);
  EXPECT_FALSE(now.chips[0].cores[0].posted);
  node_.Notify(3, PTO_SET, 1);
  EXPECT_EQ(Answers(), 0u);
  node_.Notify(3, PTO_ADD, 1);
  EXPECT_EQ(last().result, PTO_OK);
  EXPECT_TRUE(node_.engine->Look().chips[0].cores[0].posted);
  Finish();
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineLaneCallTest, KernelsOnAndOffTheLaneNotifyEachOther) {
  Script({Signal(Kind::kNotify, 0, PTO_SET, 7), Signal(Kind::kWait, 1, PTO_EQ, 8)});
  body_ = [&](uint32_t task, const pto_context& context) -> int32_t {
    if (task == 0) return 0;
    const pto_signal from = node_.signal(0), to = node_.signal(1);
    const int32_t waited = context.api->wait(&context, &from, PTO_EQ, 7, 0);
    if (waited != PTO_OK) return waited;
    return context.api->notify(&context, &to, PTO_ADD, 8);
  };
  Start({{.kernel = "far"}, {.kernel = "waits"}});
  EXPECT_TRUE(Call());
  EXPECT_EQ(*node_.word(0), 7);
  EXPECT_FALSE(Call());
  node_.RunAll();
  EXPECT_EQ(last().result, PTO_OK);
  Finish();
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineLaneCallTest, WhatHoldsAlreadyIsNoWait) {
  *node_.word(0) = 1;
  Script({Signal(Kind::kWait, 0, PTO_EQ, 1), Signal(Kind::kDefer, 0, PTO_EQ, 1)});
  Start({{.kernel = "far"}});
  EXPECT_TRUE(Call());
  EXPECT_TRUE(Call());
  Finish();
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineLaneCallTest, BlocksMeet) {
  Script({Meet(PTO_SCOPE_TASK), Meet(PTO_SCOPE_CHIP)});
  Start({{.kernel = "far", .block_num = 3, .together = true}});
  for (int meeting = 0; meeting < 2; ++meeting) {
    EXPECT_FALSE(Call(0));
    EXPECT_FALSE(Call(1));
    EXPECT_EQ(Diagnosis(node_.engine->Look()).Explain(0, 0, 1000, 10).verdict,
              Verdict::kProgressing);
    EXPECT_TRUE(Call(2));
    EXPECT_EQ(Answers(), 3u * static_cast<uint64_t>(meeting + 1));
  }
  EXPECT_EQ(lane_->seen().results[PTO_OK], 6u);
  Finish();
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineLaneCallTest, ABarrierBreaksWithTheFirstBlockThatEnds) {
  Script({Meet(PTO_SCOPE_TASK)});
  Start({{.kernel = "far", .block_num = 3, .together = true}});
  EXPECT_FALSE(Call(0));
  lane_->Finish({lane_->held()[1]});
  node_.RunAll();
  EXPECT_EQ(last().result, PTO_BROKEN);
  EXPECT_TRUE(Call(1));
  EXPECT_EQ(lane_->seen().results[PTO_BROKEN], 2u);
  Finish();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  EXPECT_THAT(Error(), HasSubstr("returned -5"));
  ExpectClean();
}

TEST_F(EngineLaneCallTest, AWaitHasATime) {
  Script({Signal(Kind::kWait, 0, PTO_GE, 1, 1000)});
  Start({{.kernel = "far"}, {.after = {0}}});
  EXPECT_FALSE(Call());
  Pass(absl::Nanoseconds(1000));
  EXPECT_EQ(last().result, PTO_TIMED_OUT);
  Finish();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  ASSERT_EQ(run_->errors().size(), 1u);
  EXPECT_THAT(run_->errors()[0], HasReason(reason::kWaitTimeout));
  EXPECT_THAT(Error(), HasSubstr("block 0 waited for 'words'[0] >= 1, had 0 after 1us"));
  EXPECT_EQ(run_->counts().skipped, 1u);
  ExpectClean();
}

// A kernel that gives up in silence has perhaps computed with what was not there.
TEST_F(EngineLaneCallTest, AKernelThatIgnoresAFailedCallHasFailed) {
  Script({Signal(Kind::kWait, 0, PTO_GE, 1, 1000)});
  Start({{.kernel = "far"}});
  EXPECT_FALSE(Call());
  Pass(absl::Nanoseconds(1000));
  lane_->FinishWell();
  node_.RunAll();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  EXPECT_THAT(run_->errors()[0], HasReason(reason::kWaitTimeout));

  Script({Signal(Kind::kWait, 0, PTO_GE, 1, -1)});
  Start({{.kernel = "far"}});
  EXPECT_TRUE(Call());
  lane_->FinishWell();
  node_.RunAll();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  EXPECT_THAT(run_->errors()[0], HasReason(reason::kKernelFailed));
  EXPECT_THAT(Error(), HasSubstr("one of its calls had failed with -4: a time is not negative"));
  ExpectClean();
}

TEST_F(EngineLaneCallTest, AStopEndsWaits) {
  Script({Signal(Kind::kWait, 0, PTO_GE, 1)});
  Start({{.kernel = "far", .block_num = 2}});
  EXPECT_FALSE(Call(0));
  node_.Cancel(*run_);
  EXPECT_EQ(last().result, PTO_CANCELLED);
  // One that comes after the stop.
  EXPECT_TRUE(Call(1));
  EXPECT_EQ(lane_->seen().results[PTO_CANCELLED], 2u);
  EXPECT_EQ(lane_->seen().cancels.size(), 2u);
  Finish();
  EXPECT_EQ(run_->state(), RunState::kCancelled);
  EXPECT_EQ(lane_->seen().kills, 0u);
  ExpectClean();
}

TEST_F(EngineLaneCallTest, TheTimeOfATaskEndsItsWaits) {
  Script({Signal(Kind::kWait, 5, PTO_GE, 1)});
  Start({{.kernel = "far", .timeout_ns = 1000}});
  EXPECT_FALSE(Call());
  Pass(absl::Nanoseconds(1000));
  EXPECT_EQ(last().result, PTO_TIMED_OUT);
  Finish();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  EXPECT_THAT(run_->errors()[0], HasReason(reason::kTaskDeadline));
  EXPECT_THAT(Error(), HasSubstr("waited for 'words'[5] >= 1"));
  ExpectClean();
}

TEST_F(EngineLaneCallTest, ADeadLaneWaitsNoMore) {
  Script({Signal(Kind::kWait, 0, PTO_GE, 1)});
  Start({{.kernel = "far"}, {.kernel = "far", .block_num = 2, .together = true}});
  EXPECT_FALSE(Call(0));
  EXPECT_FALSE(Call(1));
  lane_->reports()->ReportDeath("signal 11", 0);
  node_.RunAll();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  EXPECT_THAT(run_->errors()[0], HasReason(reason::kHostLost));
  EXPECT_EQ(node_.engine->waiting(), 0u);
  ExpectClean();
}

// As a lane must not do.
TEST_F(EngineLaneCallTest, APostMayEndInTheMiddleOfItsWait) {
  Script({Signal(Kind::kWait, 0, PTO_GE, 1)});
  Start({{.kernel = "far"}});
  EXPECT_FALSE(Call());
  LaneCall second = Signal(Kind::kNotify, 0, PTO_SET, 1);
  second.id = lane_->held()[0]->id;
  EXPECT_FALSE(lane_->reports()->Call(second)) << "one call at a time";
  EXPECT_EQ(*node_.word(0), 0);
  EXPECT_EQ(port_->counts().ignored, 1u);
  lane_->Finish();
  EXPECT_EQ(node_.engine->waiting(), 0u);
  EXPECT_FALSE(lane_->reports()->Call(second)) << "it has ended";
  node_.RunAll();
  EXPECT_EQ(run_->state(), RunState::kFailed) << "it has not got what it waited for";
  ExpectClean();
}

TEST_F(EngineLaneCallTest, ACopyIsAwaitedOrDeferred) {
  LaneCall with_signal = Copy(40, 8, 4);
  with_signal.signal = node_.signal(0);
  with_signal.how = PTO_ADD;
  with_signal.value = 5;
  Script({Copy(16, 8, 8), Event(Kind::kWaitCopy, 1), with_signal, Event(Kind::kDeferCopy, 2),
          Event(Kind::kWaitCopy, 3)});
  for (uint32_t i = 0; i < 8; ++i) *node_.word(8 + i) = 100 + i;
  Start({{.kernel = "far"}});
  EXPECT_TRUE(Call());
  EXPECT_EQ(last().event, 1u);
  EXPECT_FALSE(Call());
  node_.RunAll();
  EXPECT_EQ(last().result, PTO_OK);
  EXPECT_EQ(*node_.word(23), 107);
  EXPECT_TRUE(Call());
  EXPECT_EQ(last().event, 2u);
  EXPECT_TRUE(Call());
  EXPECT_TRUE(Call());
  EXPECT_EQ(last().result, PTO_INVALID);
  EXPECT_THAT(last().text, HasSubstr("no copy 3"));
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(*node_.word(43), 103);
  EXPECT_EQ(*node_.word(0), 5);
  EXPECT_EQ(run_->state(), RunState::kFailed);
  ExpectClean();
}

TEST_F(EngineLaneCallTest, ADeferredTaskEndsWithItsConditions) {
  LaneCall foreign = Signal(Kind::kDefer, 1, PTO_GE, 9);
  foreign.signal.dtype = PTO_U64;
  Script({Signal(Kind::kDefer, 0, PTO_EQ, 1), foreign});
  Start({{.kernel = "far"}, {.after = {0}}});
  EXPECT_TRUE(Call());
  EXPECT_TRUE(Call());
  Finish();
  EXPECT_EQ(run_->state(), RunState::kRunning);
  EXPECT_EQ(node_.engine->chip_use(0).busy_cores, 0u);
  node_.Notify(0, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(run_->state(), RunState::kRunning);
  *node_.word(1) = 9;
  EXPECT_EQ(node_.engine->LookAtForeignWords(), 0u);
  node_.RunAll();
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  ExpectClean();
}

TEST_F(EngineLaneCallTest, AFailedBlockDefersNothing) {
  Script({Signal(Kind::kDefer, 0, PTO_EQ, 1), Signal(Kind::kDefer, 0, PTO_EQ, 1, -1)});
  Start({{.kernel = "far", .block_num = 2}});
  EXPECT_TRUE(Call(0));
  EXPECT_TRUE(Call(0));
  EXPECT_TRUE(Call(1));
  lane_->Finish({lane_->held()[0]});
  node_.RunAll();
  EXPECT_EQ(node_.engine->waiting(), 1u) << "that of the other block";
  lane_->Finish();
  node_.RunAll();
  EXPECT_EQ(run_->state(), RunState::kRunning);
  node_.Notify(0, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  ExpectClean();
}

TEST_F(EngineLaneCallTest, WhatAKernelMakesTheEngineKeepIsBounded) {
  std::vector<LaneCall> calls(65, Signal(Kind::kDefer, 0, PTO_EQ, 1));
  Script(calls);
  Start({{.kernel = "far"}});
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(Call());
  EXPECT_EQ(lane_->seen().results[PTO_OK], 64u);
  EXPECT_TRUE(Call());
  EXPECT_EQ(last().result, PTO_INVALID);
  EXPECT_THAT(last().text, HasSubstr("at most 64 conditions"));
  Finish();
  EXPECT_EQ(run_->state(), RunState::kFailed);

  calls.assign(2050, Copy(8, 16, 1));
  Script(calls);
  Start({{.kernel = "far"}});
  for (int i = 0; i < 1024; ++i) EXPECT_TRUE(Call());
  EXPECT_EQ(last().event, 1024u);
  node_.RunAll();
  for (int i = 0; i < 1024; ++i) EXPECT_TRUE(Call());
  EXPECT_EQ(last().event, 2048u);
  EXPECT_TRUE(Call());
  EXPECT_EQ(last().result, PTO_INVALID);
  EXPECT_THAT(last().text, HasSubstr("1024 copies"));
  Finish();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  ExpectClean();
}

TEST_F(EngineLaneCallTest, WhatStaysAfterABlockIsChargedToItsAccount) {
  constexpr uint64_t kBytes = 100 << 10;
  const auto memory = std::make_shared<MemoryAccount>("the test", "limit", kBytes);
  RunSpec spec;
  spec.account = std::make_shared<Account>("a", 1, "", memory);
  std::vector<LaneCall> calls(30, Signal(Kind::kDefer, 0, PTO_EQ, 1));
  for (LaneCall& call : calls) {
    if (&call - calls.data() >= 20) call = Copy(8, 16, 1);
  }
  Script(calls);
  Start({{.kernel = "far", .block_num = 4}}, spec);
  for (int block = 0; block < 3; ++block) {
    for (size_t i = 0; i < calls.size(); ++i) EXPECT_TRUE(Call());
    EXPECT_EQ(last().result, PTO_OK);
    lane_->Finish({lane_->held()[0]});
  }
  EXPECT_EQ(memory->used(), 90u << 10);
  for (size_t i = 0; i < 11; ++i) EXPECT_TRUE(Call());
  EXPECT_EQ(last().result, PTO_INVALID);
  EXPECT_THAT(last().text, HasSubstr("the test may hold"));
  node_.RunAll();
  EXPECT_EQ(memory->used(), 70u << 10) << "the copies are over";
  Finish();
  EXPECT_EQ(run_->state(), RunState::kRunning);
  node_.Notify(0, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  EXPECT_EQ(memory->used(), 0u);
  ExpectClean();
}

// A host may send anything.
TEST_F(EngineLaneCallTest, CallsAreChecked) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  int64_t outside = 0;
  const auto with = [](LaneCall call, auto change) {
    change(call);
    return call;
  };
  const LaneCall wait = Signal(Kind::kWait, 0, PTO_GE, 1);
  const LaneCall notify = Signal(Kind::kNotify, 0, PTO_SET, 1);
  const LaneCall copy = Copy(0, 8, 4);
  const std::vector<LaneCall> bad = {
      with(wait, [&](LaneCall& c) { c.signal.address = &outside; }),
      with(wait, [&](LaneCall& c) { c.signal.address = nullptr; }),
      with(wait, [&](LaneCall& c) { c.signal.address = node_.word(SlowEngine::kWords); }),
      with(wait, [&](LaneCall& c) { c.signal.dtype = PTO_F64; }),
      with(wait, [&](LaneCall& c) { c.signal.dtype = PTO_U64; }),
      with(wait, [&](LaneCall& c) { c.how = 7; }),
      with(wait, [&](LaneCall& c) { c.timeout_ns = -1; }),
      with(wait, [&](LaneCall& c) { c.kind = static_cast<Kind>(99); }),
      with(notify, [&](LaneCall& c) { c.how = 3; }),
      with(notify, [&](LaneCall& c) { c.signal.address = &outside; }),
      with(notify, [&](LaneCall& c) { c.signal.dtype = PTO_U32; }),
      Meet(static_cast<pto_scope>(3)),
      with(copy, [&](LaneCall& c) { c.to.ndim = c.from.ndim = 6; }),
      with(copy, [&](LaneCall& c) { c.to.dtype = c.from.dtype = 0; }),
      with(copy, [&](LaneCall& c) { c.to.shape[0] = 5; }),
      with(copy, [&](LaneCall& c) { c.to.shape[0] = c.from.shape[0] = -1; }),
      with(copy, [&](LaneCall& c) { c.to.strides[0] = 0; }),
      with(copy, [&](LaneCall& c) { c.to.strides[0] = kHuge; }),
      with(copy, [&](LaneCall& c) { c.to.shape[0] = c.from.shape[0] = kHuge; }),
      with(copy, [&](LaneCall& c) { c.to.data = &outside; }),
      with(copy, [&](LaneCall& c) { c.from.data = &outside; }),
      with(copy, [&](LaneCall& c) { c.from.data = node_.word(SlowEngine::kWords); }),
      with(copy, [&](LaneCall& c) { c.signal.address = &outside; }),
      with(copy, [&](LaneCall& c) { c.to.data = reinterpret_cast<char*>(c.to.data) + 4; }),
      with(copy, [&](LaneCall& c) { c.from.data = reinterpret_cast<char*>(c.from.data) + 1; }),
      // Many elements in little memory.
      with(copy,
           [&](LaneCall& c) {
             for (pto_tensor* const tensor : {&c.to, &c.from}) {
               tensor->ndim = 2;
               tensor->shape[0] = tensor->shape[1] = 16;
               tensor->strides[0] = tensor->strides[1] = 1;
             }
           }),
      Event(Kind::kWaitCopy, 0),
      Event(Kind::kWaitCopy, ~uint64_t{0}),
      Event(Kind::kDeferCopy, 1),
      with(Signal(Kind::kDefer, 0, PTO_GE, 1), [&](LaneCall& c) { c.signal.address = &outside; }),
      with(Signal(Kind::kDefer, 0, PTO_GE, 1),
           [&](LaneCall& c) { c.signal = {&outside, PTO_U64}; }),
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    Script({bad[i]});
    Start({{.kernel = "far"}});
    EXPECT_TRUE(Call()) << i;
    EXPECT_EQ(last().result, PTO_INVALID) << i;
    EXPECT_FALSE(last().text.empty()) << i;
    Finish();
    EXPECT_EQ(run_->state(), RunState::kFailed) << i;
  }
  EXPECT_EQ(*node_.word(0), 0);
  ExpectClean();
}

TEST_F(EngineLaneCallTest, AKernelDoesOnlyWhatItSaysThatItDoes) {
  const auto quiet = std::make_shared<TestLane>("quiet");
  const std::shared_ptr<LanePort> port = node_.AddLane(quiet, "quiet");
  for (const LaneCall& call : {Signal(Kind::kNotify, 0, PTO_SET, 1), Meet(PTO_SCOPE_TASK)}) {
    quiet->SetScript([&](const LanePost&) { return std::vector<LaneCall>{call}; });
    Start({{.kernel = "quiet", .block_num = 2}});
    quiet->MakeCall(*quiet->held()[0]);
    EXPECT_EQ(quiet->seen().last.back().result, PTO_NOT_ALLOWED);
    quiet->Finish();
    node_.RunAll();
    EXPECT_EQ(run_->state(), RunState::kFailed);
  }
  Script({Meet(PTO_SCOPE_TASK)});
  Start({{.kernel = "far", .block_num = 2}});
  EXPECT_TRUE(Call());
  EXPECT_EQ(last().result, PTO_NOT_ALLOWED) << "the blocks do not start together";
  Finish();
  ExpectClean();
}

// A silent lane does not hold a run for ever.
TEST(EngineLaneLimitTest, APostHasTheLimitOfTasksWithoutATime) {
  constexpr int64_t kLimitNs = 1'000'000;
  SlowEngine node({4}, 0, 5'000'000'000, 0, kLimitNs);
  const auto lane = std::make_shared<TestLane>("far");
  const std::shared_ptr<LanePort> port = node.AddLane(lane, "far", PTO_KERNEL_WAITS);
  LaneCall wait;
  wait.signal = node.signal(0);
  wait.how = PTO_EQ;
  wait.value = 1;
  lane->SetScript([&](const LanePost&) { return std::vector<LaneCall>{wait}; });
  const auto pass = [&](int64_t time_ns) {
    node.clock.Advance(absl::Nanoseconds(time_ns));
    node.timers.RunDue();
    node.RunAll();
  };
  const KernelBody body = [](uint32_t, const pto_context&) { return 0; };
  const auto patient = node.Start({{.kernel = "far", .timeout_ns = 100 * kLimitNs}}, body);
  node.RunAll();
  const auto waits = node.Start({{.kernel = "far"}}, body);
  node.RunAll();
  lane->MakeCall(*lane->held()[1]);
  const auto silent = node.Start({{.kernel = "far"}}, body);
  node.RunAll();
  pass(kLimitNs - 1);
  EXPECT_TRUE(lane->seen().cancels.empty());
  pass(1);
  EXPECT_EQ(lane->seen().cancels.size(), 1u);
  EXPECT_EQ(silent->state(), RunState::kCancelling);
  EXPECT_THAT(silent->stop_error(), HasReason(reason::kTaskDeadline));
  EXPECT_THAT(std::string(silent->stop_error().message()), HasSubstr("its kernel has run for 1ms"));
  pass(3 * kLimitNs);
  EXPECT_EQ(waits->state(), RunState::kRunning);
  EXPECT_EQ(patient->state(), RunState::kRunning);
  // From the end of its wait.
  node.Notify(0, PTO_SET, 1);
  pass(kLimitNs - 1);
  EXPECT_EQ(waits->state(), RunState::kRunning);
  pass(kLimitNs);
  EXPECT_EQ(waits->state(), RunState::kCancelling);
  lane->Finish();
  node.RunAll();
  EXPECT_EQ(patient->state(), RunState::kSucceeded);
  pass(10 * kLimitNs);
  pass(5'000'000'000);
  node.ExpectClean();
}

}  // namespace
}  // namespace pto::engine

// What is said of runs that do not go on, with an engine that a test moves step by step.

#include "runtime/engine/snapshot/diagnosis.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;

constexpr int64_t kStall = 30'000'000'000;

SlowTask Wait(uint32_t word, int64_t value, std::vector<uint32_t> after = {}) {
  return {.kernel = "wait", .after = std::move(after), .word = word, .scalars = {PTO_GE, value, 0}};
}
SlowTask Notify(uint32_t word, int64_t value, std::vector<uint32_t> after = {}) {
  return {.kernel = "notify", .after = std::move(after), .word = word, .scalars = {PTO_ADD, value}};
}

class DiagnosisTest : public ::testing::Test {
 protected:
  RunDiagnosis Explain(const std::shared_ptr<pto::engine::Run>& run, int64_t idle_ns = 0,
                       size_t max = 16) {
    now_ = node_.engine->Look();
    for (size_t i = 0; i < now_.runs.size(); ++i) {
      if (now_.runs[i].run == run) return Diagnosis(now_).Explain(i, idle_ns, kStall, max);
    }
    ADD_FAILURE() << "the run is not there";
    return {};
  }
  void End(const std::shared_ptr<pto::engine::Run>& run) {
    node_.Cancel(*run);
    node_.RunAll();
    EXPECT_EQ(run->state(), RunState::kCancelled);
    node_.ExpectClean();
  }

  SlowEngine node_{{1}};
  EngineNow now_;
  const KernelBody nothing_ = [](uint32_t, const pto_context&) { return 0; };
};

TEST_F(DiagnosisTest, NobodySendsTheSignal) {
  auto run = node_.Start({Notify(3, 1), Wait(3, 2), {.after = {1}}, {.after = {2}}}, nothing_);
  node_.RunAll();
  ASSERT_EQ(run->state(), RunState::kRunning);
  RunDiagnosis found = Explain(run);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  ASSERT_EQ(found.obstacles.size(), 3u);
  const Obstacle& wait = found.obstacles[0];
  EXPECT_EQ(wait.kind, Obstacle::Kind::kSignal);
  EXPECT_EQ(wait.task, 1u);
  EXPECT_TRUE(wait.deferred);
  EXPECT_TRUE(wait.has_have);
  EXPECT_EQ(wait.have, 1);
  EXPECT_EQ(wait.want, 2);
  EXPECT_EQ(wait.compare, static_cast<uint32_t>(PTO_GE));
  ASSERT_TRUE(wait.slot.has_value());
  EXPECT_EQ(now_.runs[0].image().text(now_.runs[0].image().slots()[*wait.slot].name), "words");
  EXPECT_EQ(wait.element, 3u);
  EXPECT_FALSE(wait.can_end);
  EXPECT_TRUE(wait.peers.empty());
  EXPECT_TRUE(wait.cycle.empty());
  // Who would have sent it, and has ended.
  ASSERT_EQ(wait.ended.size(), 1u);
  EXPECT_EQ(wait.ended[0].task, 0u);
  EXPECT_EQ(found.obstacles[1].kind, Obstacle::Kind::kPredecessors);
  EXPECT_EQ(found.obstacles[1].task, 2u);
  EXPECT_EQ(found.obstacles[1].peers[0].task, 1u);
  EXPECT_FALSE(found.obstacles[1].can_end);
  EXPECT_EQ(found.more, 0u);
  found = Explain(run, 0, 2);
  EXPECT_EQ(found.obstacles.size(), 2u);
  EXPECT_EQ(found.more, 1u);
  End(run);
}

TEST_F(DiagnosisTest, ADeadlineIsNoDeadlock) {
  // One wait has a time of its own, one is of a run that has, and one has none.
  auto waits = node_.Start({Wait(0, 1)}, nothing_);
  SlowTask timed = Wait(1, 1);
  timed.scalars[2] = 1000;
  auto fails = node_.Start({timed}, nothing_);
  node_.RunAll();
  EXPECT_EQ(Explain(fails).verdict, Verdict::kWaitingForNotification);
  EXPECT_EQ(Explain(waits).verdict, Verdict::kDeadlocked);
  RunSpec limited;
  limited.timeout_ns = 5000;
  auto stopped = node_.Start({Wait(2, 1)}, nothing_, limited);
  node_.RunAll();
  EXPECT_EQ(Explain(stopped).verdict, Verdict::kWaitingForNotification);
  node_.clock.Advance(absl::Nanoseconds(5000));
  node_.timers.RunDue();
  node_.RunAll();
  EXPECT_EQ(fails->state(), RunState::kFailed);
  EXPECT_EQ(stopped->state(), RunState::kFailed);
  End(waits);
}

TEST_F(DiagnosisTest, ADeadlineFreesTheCoresOfTheSender) {
  // Both vector cores are kept until the time of their task is up.
  SlowTask hold = {.kernel = "hold", .word = 1, .scalars = {1}, .block_num = 2, .timeout_ns = 1000};
  auto keeps = node_.Start({hold}, nothing_);
  const KernelBody sends = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node_.signal(0);
    return context.api->notify(&context, &signal, PTO_SET, 1);
  };
  node_.RunAll();
  auto run = node_.Start({Wait(0, 1), {}}, sends);
  node_.RunAll();
  EXPECT_EQ(Explain(run).verdict, Verdict::kWaitingForCapacity);
  EXPECT_EQ(Explain(keeps).verdict, Verdict::kWaitingForNotification);
  node_.clock.Advance(absl::Nanoseconds(1000));
  node_.timers.RunDue();
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(keeps->state(), RunState::kFailed);
  node_.ExpectClean();
}

TEST_F(DiagnosisTest, WhoNeverNotifiesIsNoSender) {
  // All of them use the same memory, and none of them notifies.
  auto run = node_.Start({{.kernel = "hold", .word = 1, .scalars = {1}},
                          {.kernel = "defer", .word = 2, .scalars = {1}},
                          Wait(0, 1),
                          {.kernel = "silent", .after = {0}},
                          {.kernel = "defer", .after = {1}, .word = 0, .scalars = {1}},
                          Notify(3, 1, {0})},
                         nothing_);
  node_.RunAll();
  const RunDiagnosis found = Explain(run);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  size_t signals = 0;
  for (const Obstacle& obstacle : found.obstacles) {
    if (obstacle.kind != Obstacle::Kind::kSignal) continue;
    ++signals;
    EXPECT_FALSE(obstacle.can_end) << obstacle.task;
    EXPECT_TRUE(obstacle.peers.empty()) << obstacle.task;
    EXPECT_TRUE(obstacle.cycle.empty()) << obstacle.task;
    EXPECT_TRUE(obstacle.ended.empty()) << obstacle.task;
    EXPECT_TRUE(obstacle.held.empty()) << obstacle.task;
  }
  EXPECT_EQ(signals, 3u);
  End(run);
}

TEST_F(DiagnosisTest, ASenderThatCannotStartIsNamed) {
  // One comes after a task that waits, one gets no core, one is of a run that has not begun.
  const KernelBody sends = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node_.signal(2);
    return context.api->notify(&context, &signal, PTO_SET, 1);
  };
  auto run = node_.Start({Wait(0, 1),
                          Notify(0, 1, {0}),
                          {.kernel = "hold", .word = 2, .scalars = {1}, .block_num = 2}},
                         nothing_);
  node_.RunAll();
  auto other = node_.Start({{}}, sends);
  node_.RunAll();
  RunDiagnosis found = Explain(run);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  ASSERT_GE(found.obstacles.size(), 2u);
  for (const Obstacle& obstacle : found.obstacles) {
    if (obstacle.kind != Obstacle::Kind::kSignal) continue;
    ASSERT_EQ(obstacle.held.size(), 1u) << obstacle.task;
    const HeldSender& held = obstacle.held[0];
    if (obstacle.task == 0) {
      EXPECT_EQ(held.sender.task, 1u);
      EXPECT_EQ(held.why, HeldSender::Why::kTasks);
      EXPECT_EQ(held.by->task, 0u);
    } else {
      EXPECT_EQ(now_.runs[held.sender.run].run, other);
      EXPECT_EQ(held.why, HeldSender::Why::kCores);
      EXPECT_EQ(held.by->task, 2u);
    }
  }
  node_.Cancel(*other);
  End(run);
  auto first = node_.Start({Wait(4, 1)}, nothing_);
  node_.RunAll();
  auto scratch = node_.Start({Notify(4, 1)}, nothing_);
  RunSpec spec;
  spec.image = scratch->shared_image();
  spec.slots = node_.slots();
  std::shared_ptr<pto::engine::Run> second = node_.engine->Prepare(spec);
  node_.Cancel(*scratch);
  node_.engine->Accept(second);
  while (scratch->state() != RunState::kCancelled) ASSERT_TRUE(node_.engine->RunOne());
  now_ = node_.engine->Look();
  ASSERT_EQ(now_.runs.size(), 2u);
  now_.runs[0].behind = {1};
  found = Diagnosis(now_).Explain(1, 0, kStall, 16);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  ASSERT_EQ(found.obstacles[0].held.size(), 1u);
  EXPECT_EQ(found.obstacles[0].held[0].why, HeldSender::Why::kTurn);
  EXPECT_EQ(found.obstacles[0].held[0].run, 1u);
  now_ = {};
  node_.Cancel(*second);
  node_.engine->Begin(second);
  End(first);
}

TEST_F(DiagnosisTest, AReservedCoreIsNotCalledFree) {
  SlowEngine node({2});
  auto holds =
      node.Start({{.kernel = "hold", .word = 0, .scalars = {1}, .block_num = 3}}, nothing_);
  node.RunAll();
  auto gang = node.Start({{.block_num = 2, .together = true}}, nothing_);
  auto plain = node.Start({{.kernel = "silent"}}, nothing_);
  EngineNow now = node.engine->Look();
  ASSERT_EQ(now.runs.size(), 3u);
  ASSERT_EQ(now.runs[0].run, plain);
  // However long the gang keeps it.
  now.chips[0].gang_run = gang.get();
  now.chips[0].gang_task = 0;
  now.chips[0].gang_have = 1;
  now.chips[0].gang_want = 2;
  const RunDiagnosis found = Diagnosis(now).Explain(0, 2'000'000'000, kStall, 16);
  EXPECT_EQ(found.verdict, Verdict::kWaitingForCapacity);
  ASSERT_EQ(found.obstacles.size(), 1u);
  EXPECT_EQ(found.obstacles[0].kind, Obstacle::Kind::kCores);
  EXPECT_EQ(found.obstacles[0].have, 1);
  EXPECT_EQ(found.obstacles[0].reserved, 1u);
  ASSERT_TRUE(found.obstacles[0].reserved_for.has_value());
  EXPECT_EQ(now.runs[found.obstacles[0].reserved_for->run].run, gang);
  now = {};
  for (const auto& run : {holds, gang, plain}) node.Cancel(*run);
  node.RunAll();
  node.ExpectClean();
}

TEST_F(DiagnosisTest, AValueThatIsThereIsNoDeadlock) {
  auto run = node_.Start({Wait(0, 1)}, nothing_);
  node_.RunAll();
  EXPECT_EQ(Explain(run).verdict, Verdict::kDeadlocked);
  // As it is for a moment while somebody notifies.
  *node_.word(0) = 1;
  const RunDiagnosis found = Explain(run);
  EXPECT_EQ(found.verdict, Verdict::kWaitingForNotification);
  ASSERT_EQ(found.obstacles.size(), 1u);
  EXPECT_EQ(found.obstacles[0].have, 1);
  EXPECT_TRUE(found.obstacles[0].can_end);
  node_.Notify(0, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
}

TEST_F(DiagnosisTest, WhatWasSeenKeepsNoMemoryOfRuns) {
  auto first = node_.Start({Wait(0, 1)}, nothing_);
  node_.RunAll();
  now_ = node_.engine->Look();
  RunSpec spec;
  spec.image = {now_.runs[0].run, &now_.runs[0].image()};
  spec.slots = node_.slots();
  const std::weak_ptr<const RunSlots> slots = spec.slots;
  auto second = node_.engine->Prepare(std::move(spec));
  node_.engine->Start(second);
  node_.RunAll();
  now_ = node_.engine->Look();
  ASSERT_EQ(now_.runs.size(), 2u);
  EXPECT_FALSE(slots.expired());
  node_.Notify(0, PTO_SET, 1);
  node_.RunAll();
  EXPECT_EQ(second->state(), RunState::kSucceeded);
  EXPECT_TRUE(slots.expired());
  // It can be spoken of all the same.
  EXPECT_EQ(Diagnosis(now_).Explain(0, 0, kStall, 16).obstacles.size(), 1u);
}

TEST_F(DiagnosisTest, AnotherRunCanSendIt) {
  auto waits = node_.Start({Wait(0, 1)}, nothing_);
  node_.RunAll();
  EXPECT_EQ(Explain(waits).verdict, Verdict::kDeadlocked);
  auto sends = node_.Start({Notify(0, 1)}, nothing_);
  RunDiagnosis found = Explain(waits);
  EXPECT_EQ(found.verdict, Verdict::kWaitingForNotification);
  EXPECT_TRUE(found.obstacles[0].can_end);
  ASSERT_EQ(found.obstacles[0].peers.size(), 1u);
  EXPECT_EQ(now_.runs[found.obstacles[0].peers[0].run].run, sends);
  node_.RunAll();
  EXPECT_EQ(waits->state(), RunState::kSucceeded);
  EXPECT_TRUE(node_.engine->Look().runs.empty());
  node_.ExpectClean();
}

TEST_F(DiagnosisTest, ATaskOfTheSameRunCanStillSendIt) {
  // The one that sends waits for another signal, which another run sends.
  auto run = node_.Start({Wait(0, 1), Wait(1, 1), Notify(0, 1, {1})}, nothing_);
  node_.RunAll();
  EXPECT_EQ(Explain(run).verdict, Verdict::kDeadlocked);
  auto other = node_.Start({Notify(1, 1)}, nothing_);
  const RunDiagnosis found = Explain(run);
  EXPECT_EQ(found.verdict, Verdict::kWaitingForNotification);
  ASSERT_EQ(found.obstacles[0].task, 0u);
  ASSERT_EQ(found.obstacles[0].peers.size(), 1u);
  EXPECT_EQ(found.obstacles[0].peers[0].task, 2u);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

TEST_F(DiagnosisTest, TasksThatWaitForEachOther) {
  auto first = node_.Start({Wait(0, 1), Notify(1, 1, {0})}, nothing_);
  auto second = node_.Start({Wait(1, 1), Notify(0, 1, {0})}, nothing_);
  node_.RunAll();
  const RunDiagnosis found = Explain(first);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  ASSERT_EQ(found.obstacles[0].cycle.size(), 2u);
  EXPECT_EQ(now_.runs[found.obstacles[0].cycle[0].run].run, first);
  EXPECT_EQ(now_.runs[found.obstacles[0].cycle[1].run].run, second);
  EXPECT_EQ(Explain(second).verdict, Verdict::kDeadlocked);
  node_.Cancel(*second);
  End(first);
}

TEST_F(DiagnosisTest, AKernelThatWaitsKeepsItsCore) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node_.signal(5);
    return context.api->wait(&context, &signal, PTO_EQ, 7, 0);
  };
  auto run = node_.Start({{.kernel = "waits", .block_num = 2}}, body);
  node_.RunAll();
  const RunDiagnosis found = Explain(run);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  // Both blocks wait for the same.
  ASSERT_EQ(found.obstacles.size(), 1u);
  EXPECT_FALSE(found.obstacles[0].deferred);
  EXPECT_GE(found.obstacles[0].core, 0);
  EXPECT_EQ(found.obstacles[0].element, 5u);
  EXPECT_EQ(now_.chips[0].cores.size(), 2u);
  EXPECT_FALSE(now_.runs[0].moves);
  End(run);
}

TEST_F(DiagnosisTest, CoresAreKeptByThoseWhoWaitForTheOneThatNeedsThem) {
  // Both vector cores are kept when who would send is ready, and gets none.
  const KernelBody body = [&](uint32_t task, const pto_context& context) {
    const pto_signal signal = node_.signal(0);
    return task == 2 ? context.api->notify(&context, &signal, PTO_SET, 1)
                     : context.api->wait(&context, &signal, PTO_EQ, 1, 0);
  };
  auto run = node_.Start({{.kernel = "waits", .block_num = 2}, Wait(1, 1), {.after = {1}}}, body);
  node_.RunAll();
  node_.Notify(1, PTO_SET, 1);
  node_.RunAll();
  const RunDiagnosis found = Explain(run);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  ASSERT_EQ(found.obstacles.size(), 2u);
  EXPECT_EQ(found.obstacles[0].kind, Obstacle::Kind::kSignal);
  ASSERT_EQ(found.obstacles[0].cycle.size(), 1u);
  EXPECT_EQ(found.obstacles[1].kind, Obstacle::Kind::kCores);
  EXPECT_EQ(found.obstacles[1].task, 2u);
  EXPECT_EQ(found.obstacles[1].have, 0);
  EXPECT_FALSE(found.obstacles[1].can_end);
  End(run);
}

TEST_F(DiagnosisTest, OthersHaveTheCores) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node_.signal(0);
    return context.api->wait(&context, &signal, PTO_EQ, 1, 0);
  };
  auto holds = node_.Start({{.kernel = "waits", .block_num = 2}}, body);
  node_.RunAll();
  auto sends = node_.Start({Notify(0, 1)}, nothing_);
  auto plain = node_.Start({{}, {}, {}}, nothing_);
  const RunDiagnosis found = Explain(plain);
  EXPECT_EQ(found.verdict, Verdict::kWaitingForCapacity);
  ASSERT_EQ(found.obstacles.size(), 1u);
  EXPECT_EQ(found.obstacles[0].count, 3u);
  EXPECT_EQ(found.obstacles[0].have, 0);
  ASSERT_FALSE(found.obstacles[0].peers.empty());
  EXPECT_EQ(now_.runs[found.obstacles[0].peers[0].run].run, holds);
  node_.RunAll();
  EXPECT_EQ(plain->state(), RunState::kSucceeded);
  EXPECT_EQ(sends->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

TEST_F(DiagnosisTest, AGangThatHasNotAllItsCores) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node_.signal(0);
    return context.api->wait(&context, &signal, PTO_EQ, 1, 0);
  };
  auto holds = node_.Start({{.kernel = "waits"}}, body);
  node_.RunAll();
  auto gang = node_.Start({{.block_num = 2, .together = true}}, nothing_);
  node_.RunAll();
  RunDiagnosis found = Explain(gang);
  // The one core never comes back.
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  ASSERT_EQ(found.obstacles.size(), 1u);
  EXPECT_EQ(found.obstacles[0].kind, Obstacle::Kind::kReservation);
  EXPECT_EQ(found.obstacles[0].have, 1);
  EXPECT_EQ(found.obstacles[0].want, 2);
  auto sends = node_.Start({Notify(0, 1)}, nothing_);
  EXPECT_EQ(Explain(gang).verdict, Verdict::kWaitingForCapacity);
  node_.RunAll();
  EXPECT_EQ(gang->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

TEST_F(DiagnosisTest, BlocksThatMeet) {
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node_.signal(0);
    if (context.block_index == 0) {
      if (const int32_t result = context.api->wait(&context, &signal, PTO_EQ, 1, 0)) return result;
    }
    return context.api->barrier(&context, PTO_SCOPE_TASK);
  };
  auto run = node_.Start({{.kernel = "waits", .block_num = 2, .together = true}}, body);
  node_.RunAll();
  RunDiagnosis found = Explain(run);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  ASSERT_EQ(found.obstacles.size(), 2u);
  const bool signal_first = found.obstacles[0].kind == Obstacle::Kind::kSignal;
  const Obstacle& barrier = found.obstacles[signal_first ? 1 : 0];
  EXPECT_EQ(barrier.kind, Obstacle::Kind::kBarrier);
  EXPECT_EQ(barrier.have, 1);
  EXPECT_EQ(barrier.want, 2);
  auto sends = node_.Start({Notify(0, 1)}, nothing_);
  EXPECT_EQ(Explain(run).verdict, Verdict::kWaitingForNotification);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  node_.ExpectClean();
}

TEST_F(DiagnosisTest, ReadyTasksThatNobodyTakes) {
  auto run = node_.Start({{}, {}}, nothing_);
  EXPECT_EQ(Explain(run).verdict, Verdict::kWaitingForCapacity);
  const RunDiagnosis found = Explain(run, 2'000'000'000);
  EXPECT_EQ(found.verdict, Verdict::kStalled);
  EXPECT_EQ(found.obstacles[0].kind, Obstacle::Kind::kThread);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
}

TEST_F(DiagnosisTest, ARunThatIsBehindAnother) {
  auto first = node_.Start({Wait(0, 1)}, nothing_);
  node_.RunAll();
  RunSpec spec;
  now_ = node_.engine->Look();
  spec.image = {now_.runs[0].run, &now_.runs[0].image()};
  spec.slots = node_.slots();
  std::shared_ptr<pto::engine::Run> second = node_.engine->Prepare(spec);
  node_.engine->Accept(second);
  now_ = node_.engine->Look();
  ASSERT_EQ(now_.runs.size(), 2u);
  ASSERT_EQ(now_.runs[0].run, second);
  EXPECT_FALSE(now_.runs[0].begun);
  // Not known behind whom: it may begin, and will wait for what nobody sends.
  const RunDiagnosis ahead = Diagnosis(now_).Explain(0, 0, kStall, 16);
  EXPECT_EQ(ahead.verdict, Verdict::kDeadlocked);
  ASSERT_EQ(ahead.obstacles.size(), 2u);
  EXPECT_EQ(ahead.obstacles[0].kind, Obstacle::Kind::kTurn);
  EXPECT_TRUE(ahead.obstacles[0].can_end);
  EXPECT_EQ(ahead.obstacles[1].kind, Obstacle::Kind::kSignal);
  EXPECT_TRUE(ahead.obstacles[1].ahead);
  EXPECT_FALSE(ahead.obstacles[1].can_end);
  now_.runs[0].behind = {1};
  const Diagnosis diagnosis(now_);
  EXPECT_EQ(diagnosis.Explain(1, 0, kStall, 16).verdict, Verdict::kDeadlocked);
  const RunDiagnosis found = diagnosis.Explain(0, 0, kStall, 16);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  EXPECT_EQ(found.obstacles[0].kind, Obstacle::Kind::kTurn);
  EXPECT_EQ(found.obstacles[0].runs, std::vector<size_t>{1});
  now_ = {};
  node_.Cancel(*second);
  node_.engine->Begin(second);
  End(first);
}

TEST_F(DiagnosisTest, ACopyIsNotADeadlock) {
  auto run = node_.Start({{.kernel = "copy_async", .from = 0, .to = 8, .count = 4}}, nothing_);
  EXPECT_TRUE(node_.engine->RunOne());
  const RunDiagnosis found = Explain(run);
  EXPECT_EQ(found.verdict, Verdict::kProgressing);
  ASSERT_EQ(found.obstacles.size(), 1u);
  EXPECT_EQ(found.obstacles[0].kind, Obstacle::Kind::kCopy);
  EXPECT_EQ(found.obstacles[0].want, 32);
  EXPECT_EQ(Explain(run, kStall).verdict, Verdict::kStalled);
  node_.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
}

}  // namespace
}  // namespace pto::engine

// Lanes with threads of their own, on an engine with executors: for ThreadSanitizer.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/timer.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/signal/signal_word.h"
#include "runtime/engine/testing/slow_testing.h"
#include "runtime/engine/testing/test_lane.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::engine::testing::TestLane;
using ::pto::engine::testing::TestObserver;

constexpr int64_t kGraceNs = 5'000'000;
constexpr uint32_t kRounds = kSanitized ? 160 : 400;
constexpr uint32_t kRunsOfARound = 12;

// A lane, and two threads that act for it.
class LaneThreads {
 public:
  LaneThreads(std::shared_ptr<TestLane> lane, uint64_t seed) : lane_(std::move(lane)) {
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this, seed, i] {
        std::mt19937_64 random(seed * 2 + static_cast<uint64_t>(i));
        while (lane_->AwaitAct()) lane_->Act([&](size_t count) { return random() % count; });
      });
    }
  }
  ~LaneThreads() {
    lane_->Stop();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  const std::shared_ptr<TestLane> lane_;
  std::vector<std::thread> threads_;
};

// Calls of the kernel of a post: a notice and a wait for one, a meeting, a copy.
std::vector<LaneCall> MakeCalls(SlowEngine& node, const LanePost& post, uint64_t number) {
  LaneCall notify;
  notify.kind = LaneCall::Kind::kNotify;
  notify.signal = node.signal(static_cast<uint32_t>(number % 3));
  notify.how = PTO_ADD;
  notify.value = 1;
  LaneCall wait = notify;
  wait.kind = number % 5 == 0 ? LaneCall::Kind::kDefer : LaneCall::Kind::kWait;
  wait.signal = node.signal(static_cast<uint32_t>(number / 3 % 3));
  wait.how = PTO_NE;
  wait.value = SignalWord{wait.signal.address, PTO_I64}.Load();
  wait.timeout_ns = static_cast<int64_t>(1 + number % 7) * 200'000;
  LaneCall meet;
  meet.kind = LaneCall::Kind::kBarrier;
  meet.how = PTO_SCOPE_TASK;
  LaneCall copy = notify;
  copy.kind = LaneCall::Kind::kCopy;
  // Not to where another one copies.
  copy.to = node.words(static_cast<uint32_t>(16 + number % 48), 1);
  copy.from = node.words(8, 1);
  LaneCall copied;
  copied.kind = number % 2 == 0 ? LaneCall::Kind::kWaitCopy : LaneCall::Kind::kDeferCopy;
  copied.event = 1;
  if (post.gang_size > 0) return {notify, meet, copy, copied};
  switch (number % 4) {
    case 0:
      return {notify, wait};
    case 1:
      return {wait, notify};
    case 2:
      return {copy, notify, copied};
    default:
      return {};
  }
}

TEST(EngineLaneStressTest, EveryRunEndsWithThreads) {
  SlowEngine node({2, 1}, 3, kGraceNs);
  TimerThread timer_thread(node.timers, 2);
  std::atomic<uint64_t> calls{0};
  const KernelBody body = [&](uint32_t, const pto_context&) {
    calls.fetch_add(1, std::memory_order_relaxed);
    return 0;
  };
  const std::shared_ptr<Account> accounts[2] = {std::make_shared<Account>("a"),
                                                std::make_shared<Account>("b")};
  uint64_t lost = 0, ignored = 0;
  std::map<pto_result, uint64_t> results;
  std::mt19937_64 random(7);
  const auto choose = [&](size_t count) { return static_cast<size_t>(random() % count); };
  for (uint32_t round = 0; round < kRounds; ++round) {
    TestLane::Quirks quirks;
    if (round % 2 == 1) {
      quirks = {.fails = 20, .duplicates = 5, .unknown = 20, .late = 1, .leaves = 20, .twice = 10};
    }
    if (round % 4 == 3) quirks.drops = 40;
    if (round % 8 == 7) quirks.dies = 80;
    const auto lane = std::make_shared<TestLane>("far", quirks);
    // Both threads of the engine and of the lane call this.
    std::atomic<uint64_t> posts{round};
    lane->SetScript([&](const LanePost& post) {
      return MakeCalls(node, post, posts.fetch_add(1, std::memory_order_relaxed));
    });
    // In some rounds threads of the engine handle the reports, too.
    if (round % 3 != 0) {
      lane->PollWith([polls = std::make_shared<std::mt19937_64>(round)](size_t count) {
        return static_cast<size_t>((*polls)() % count);
      });
    }
    const std::shared_ptr<LanePort> port =
        node.AddLane(lane, "far", PTO_KERNEL_WAITS | PTO_KERNEL_NOTIFIES);
    std::vector<std::shared_ptr<pto::engine::Run>> runs;
    std::vector<std::shared_ptr<TestObserver>> observers;
    {
      const LaneThreads threads(lane, round);
      for (uint32_t i = 0; i < kRunsOfARound; ++i) {
        std::vector<SlowTask> tasks(1 + choose(8));
        for (uint32_t t = 0; t < tasks.size(); ++t) {
          tasks[t].kernel = choose(4) == 0 ? "plain" : "far";
          if (t > 0 && choose(2) == 0) tasks[t].after = {static_cast<uint32_t>(choose(t))};
          tasks[t].chip = choose(3) == 0 ? 1 : 0;
          tasks[t].block_num = 1 + static_cast<uint32_t>(choose(tasks[t].chip == 0 ? 4 : 2));
          tasks[t].together = tasks[t].kernel == "far" && choose(2) == 0;
        }
        RunSpec spec;
        // Posts that are dropped end with these.
        spec.timeout_ns = 50'000'000;
        if (choose(4) == 0) spec.task_timeout_ns = 1'000'000;
        spec.account = accounts[choose(2)];
        node.help_ns = choose(3) == 0 ? 100'000 : 0;
        runs.push_back(node.Start(tasks, body, spec));
        observers.push_back(node.observer);
        if (choose(4) == 0) node.Cancel(*runs[choose(runs.size())]);
      }
      for (const std::shared_ptr<TestObserver>& observer : observers) observer->WaitFinished();
      ASSERT_TRUE(node.engine->WaitIdle(absl::Seconds(60)));
    }
    for (const std::shared_ptr<pto::engine::Run>& run : runs) EXPECT_TRUE(IsFinal(run->state()));
    const TestLane::Seen seen = lane->seen();
    const PostTable::Counts counts = port->counts();
    EXPECT_EQ(counts.outstanding, 0u);
    EXPECT_EQ(counts.posted, counts.answered + counts.lost);
    EXPECT_EQ(seen.answers + seen.bad_calls, counts.answered + counts.ignored);
    EXPECT_EQ(seen.calls, counts.calls);
    EXPECT_EQ(seen.wrong_answers, 0u);
    EXPECT_EQ(node.engine->waiting(), 0u);
    for (const auto& [result, count] : seen.results) results[result] += count;
    EXPECT_EQ(seen.calls_after_kill, 0u);
    EXPECT_EQ(seen.broken_gangs, 0u);
    EXPECT_LE(seen.kills, 1u);
    lost += counts.lost;
    ignored += counts.ignored;
    // On a loaded machine a lane without quirks may be too late, too.
    if (round % 2 == 0 && seen.kills == 0) {
      EXPECT_EQ(counts.ignored, 0u);
    }
    for (uint32_t chip = 0; chip < 2; ++chip) {
      EXPECT_EQ(engine::testing::CoresLeftBusy(*node.engine, chip), 0u);
    }
  }
  // All that can go wrong has.
  EXPECT_GT(calls, 0u);
  EXPECT_GT(lost, 0u);
  EXPECT_GT(ignored, 0u);
  for (const pto_result result : {PTO_OK, PTO_TIMED_OUT, PTO_CANCELLED, PTO_BROKEN}) {
    EXPECT_GT(results[result], 0u) << result;
  }
}

}  // namespace
}  // namespace pto::engine

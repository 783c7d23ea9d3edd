// Waits that several threads want to end at the same time, each for another reason.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "runtime/base/timer.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;

constexpr uint32_t kSignals = 4;

// Control tasks that wait, and kernels that wait or defer, some with times of their own that are
// so short that a notification may come before or after.
std::vector<SlowTask> RandomTasks(std::mt19937& random) {
  std::vector<SlowTask> tasks(60);
  for (SlowTask& task : tasks) {
    task.kernel = random() % 3 == 0 ? "waits" : "wait";
    if (task.kernel == "waits") {
      task.block_num = 1 + random() % 3;
      if (random() % 2 == 0) task.timeout_ns = 1 + random() % 200'000;
      continue;
    }
    task.word = random() % kSignals;
    task.scalars = {static_cast<int64_t>(PTO_EQ + random() % 6),
                    static_cast<int64_t>(random() % 40),
                    random() % 2 == 0 ? static_cast<int64_t>(1 + random() % 200'000) : 0};
  }
  return tasks;
}

TEST(EngineWaitRaceTest, EveryWaitEndsOnce) {
  constexpr int kRounds = 60;
  SlowEngine node({4}, 2);
  TimerThread timer_thread(node.timers, 4);
  std::atomic<bool> stop{false};
  std::thread notifier([&] {
    std::mt19937 random(1);
    while (!stop.load()) {
      node.Notify(random() % kSignals, random() % 4 == 0 ? PTO_SET : PTO_ADD, random() % 3);
    }
  });
  std::mt19937 random(2);
  for (int round = 0; round < kRounds; ++round) {
    const KernelBody body = [&](uint32_t task, const pto_context& context) -> int32_t {
      const pto_signal signal = node.signal(task % kSignals);
      const auto compare = static_cast<pto_compare>(PTO_EQ + task % 6);
      const int64_t timeout = 1 + task * 2000;
      if (task % 2 == 0) return context.api->defer(&context, &signal, compare, task, timeout);
      return context.api->wait(&context, &signal, compare, task, timeout);
    };
    RunSpec spec;
    if (round % 2 == 0) spec.task_timeout_ns = 500'000;
    spec.wait_timeout_ns = 1'000'000;
    if (round % 3 == 0) spec.timeout_ns = 300'000;
    const std::shared_ptr<pto::engine::Run> run = node.Start(RandomTasks(random), body, spec);
    if (round % 4 == 0) node.Cancel(*run);
    node.observer->WaitFinished();
    EXPECT_TRUE(IsFinal(run->state()));
    ASSERT_TRUE(node.engine->WaitIdle(absl::Seconds(20)));
  }
  stop.store(true);
  notifier.join();
  node.ExpectClean();
}

}  // namespace
}  // namespace pto::engine

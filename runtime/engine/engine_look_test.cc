// Looking at an engine that works, and at one that does not go on.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/failpoint.h"
#include "runtime/engine/diagnosis.h"
#include "runtime/engine/slow_testing.h"

namespace pto {
namespace {

using ::pto::testing::KernelBody;
using ::pto::testing::SlowEngine;
using ::pto::testing::SlowTask;

// Runs of all kinds come and go while another thread looks at them. Nothing of what they own may
// be touched too late, and no run that works may be called deadlocked.
TEST(EngineLookTest, WhileRunsComeAndGo) {
  SlowEngine node({2}, 2);
  const KernelBody body = [&](uint32_t task, const pto_context& context) {
    const pto_signal signal = node.signal(task);
    if (task % 2 == 1) return context.api->notify(&context, &signal, PTO_ADD, 1);
    return int32_t{0};
  };
  std::atomic<bool> stop{false};
  std::thread looks([&] {
    while (!stop.load()) {
      const EngineNow now = node.engine->Look();
      const Diagnosis diagnosis(now);
      for (size_t i = 0; i < now.runs.size(); ++i) {
        const RunDiagnosis found = diagnosis.Explain(i, 0, 1'000'000'000, 16);
        EXPECT_NE(found.verdict, Verdict::kDeadlocked) << found.obstacles.size();
      }
      std::this_thread::yield();
    }
  });
  // However busy the machine is.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int i = 0; i < 300 && (i < 5 || std::chrono::steady_clock::now() < until); ++i) {
    auto run = node.Start({{},
                           {.after = {0}},
                           {.kernel = "wait", .word = 1, .scalars = {PTO_GE, i + 1, 0}},
                           {.after = {2}},
                           {.kernel = "notify", .after = {3}, .word = 9, .scalars = {PTO_ADD, 1}},
                           {.kernel = "wait", .word = 9, .scalars = {PTO_GE, i + 1, 0}}},
                          body);
    node.observer->WaitFinished();
    ASSERT_EQ(run->state(), RunState::kSucceeded);
  }
  stop.store(true);
  looks.join();
  node.ExpectClean();
}

TEST(EngineLookTest, WhileASchedulerIsHeldWithItsLock) {
  if (!kHasFailpoints) GTEST_SKIP() << "this build has no failpoints";
  const std::string path = absl::StrCat(::testing::TempDir(), "/scheduler");
  std::remove(path.c_str());
  ASSERT_TRUE(failpoint::Set(absl::StrCat("engine.scheduler=hold:", path, "*1")).ok());
  const KernelBody nothing = [](uint32_t, const pto_context&) { return 0; };
  SlowEngine node({1}, 1);
  auto run = node.Start({{}, {}}, nothing);
  while (failpoint::Hits("engine.scheduler") == 0) std::this_thread::yield();
  const auto before = std::chrono::steady_clock::now();
  const EngineNow now = node.engine->Look();
  ASSERT_EQ(now.runs.size(), 1u);
  EXPECT_TRUE(now.runs[0].steady);
  const RunDiagnosis found = Diagnosis(now).Explain(0, 2'000'000'000, 30'000'000'000, 16);
  EXPECT_EQ(found.verdict, Verdict::kStalled);
  ASSERT_EQ(found.obstacles.size(), 1u);
  EXPECT_EQ(found.obstacles[0].kind, Obstacle::Kind::kThread);
  EXPECT_EQ(found.obstacles[0].count, 2u);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
  std::ofstream(path) << "go";
  node.observer->WaitFinished();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  ASSERT_TRUE(failpoint::Set("").ok());
  std::remove(path.c_str());
  node.ExpectClean();
}

TEST(EngineLookTest, ADroppedNotificationIsADeadlock) {
  if (!kHasFailpoints) GTEST_SKIP() << "this build has no failpoints";
  ASSERT_TRUE(failpoint::Set("engine.notify=drop@1*1").ok());
  const KernelBody nothing = [](uint32_t, const pto_context&) { return 0; };
  SlowEngine node({1});
  auto run = node.Start({{.kernel = "notify", .word = 0, .scalars = {PTO_ADD, 1}},
                         {.kernel = "notify", .word = 1, .scalars = {PTO_ADD, 1}},
                         {.kernel = "wait", .word = 0, .scalars = {PTO_GE, 1, 0}},
                         {.kernel = "wait", .word = 1, .scalars = {PTO_GE, 1, 0}}},
                        nothing);
  node.RunAll();
  ASSERT_TRUE(failpoint::Set("").ok());
  ASSERT_EQ(run->state(), RunState::kRunning);
  const EngineNow now = node.engine->Look();
  const RunDiagnosis found = Diagnosis(now).Explain(0, 0, 30'000'000'000, 16);
  EXPECT_EQ(found.verdict, Verdict::kDeadlocked);
  ASSERT_EQ(found.obstacles.size(), 1u);
  EXPECT_EQ(found.obstacles[0].task, 3u);
  EXPECT_EQ(found.obstacles[0].element, 1u);
  ASSERT_EQ(found.obstacles[0].ended.size(), 1u);
  EXPECT_EQ(found.obstacles[0].ended[0].task, 1u);
  node.Notify(1, PTO_ADD, 1);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  node.ExpectClean();
}

}  // namespace
}  // namespace pto

#include "daemon/explain/progress.h"

#include <gtest/gtest.h>

#include <memory>

#include "runtime/engine/testing/slow_testing.h"

namespace pto::daemon {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;

constexpr int64_t kSecond = 1'000'000'000;

TEST(ProgressTest, CountsFromTheLastThingThatHappened) {
  SlowEngine node({1});
  const KernelBody nothing = [](uint32_t, const pto_context&) { return 0; };
  auto run = node.Start({{.kernel = "wait", .word = 0, .scalars = {PTO_GE, 1, 0}},
                         {.kernel = "wait", .after = {0}, .word = 1, .scalars = {PTO_GE, 1, 0}}},
                        nothing);
  node.RunAll();
  Progress progress;
  node.clock.Advance(absl::Seconds(3));
  // Seen for the first time: the wait itself has its start time.
  progress.See(node.engine->Look());
  EXPECT_EQ(progress.IdleNanos(run.get()), 3 * kSecond);
  EXPECT_TRUE(progress.TakeNews(run.get()));
  EXPECT_FALSE(progress.TakeNews(run.get()));
  node.clock.Advance(absl::Seconds(2));
  progress.See(node.engine->Look());
  EXPECT_EQ(progress.IdleNanos(run.get()), 5 * kSecond);
  // The first task ends, the second begins to wait.
  node.Notify(0, PTO_SET, 1);
  node.RunAll();
  node.clock.Advance(absl::Seconds(1));
  progress.See(node.engine->Look());
  EXPECT_EQ(progress.IdleNanos(run.get()), 0);
  EXPECT_TRUE(progress.TakeNews(run.get()));
  node.clock.Advance(absl::Seconds(1));
  progress.See(node.engine->Look());
  EXPECT_EQ(progress.IdleNanos(run.get()), kSecond);
  node.Notify(1, PTO_SET, 1);
  node.RunAll();
  EXPECT_EQ(run->state(), engine::RunState::kSucceeded);
  progress.See(node.engine->Look());
  EXPECT_EQ(progress.IdleNanos(run.get()), 0);
  EXPECT_FALSE(progress.TakeNews(run.get()));
  node.ExpectClean();
}

}  // namespace
}  // namespace pto::daemon

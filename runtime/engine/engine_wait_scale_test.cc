// Very many waits at once: each costs the same however many there are, and those of one run keep no
// other run waiting.

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/sanitized.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;

// Sanitizers make everything slower.
constexpr uint32_t kMost = kSanitized ? 20'000 : 100'000;
constexpr uint32_t kMany = std::min(kMost, 40'000u);

constexpr int64_t kSecond = 1'000'000'000;

// Time of the CPU: what else runs on the machine does not count.
int64_t CpuNanos() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// Makes the tasks, and what follows takes the time that is measured.
using Measured = std::function<int64_t(uint32_t count)>;

// Each of 20 times as many waits may cost twice as much, because the CPU's caches do not hold them.
// Code that looks at all waits for each wait would cost 20 times as much.
void ExpectInProportion(const Measured& measured, uint32_t many = kMany) {
  const uint32_t few = many / 20;
  double few_ns = 1e18, many_ns = 1e18;
  for (int i = 0; i < 10 && (i == 0 || many_ns > 2 * few_ns); ++i) {
    few_ns = std::min(few_ns, static_cast<double>(measured(few)) / few);
    many_ns = std::min(many_ns, static_cast<double>(measured(many)) / many);
  }
  std::printf("%.0f ns for each of %u, %.0f ns for each of %u\n", few_ns, few, many_ns, many);
  EXPECT_LE(many_ns, 2 * few_ns);
}

// What one of the tasks waits for, and how long.
struct Wanted {
  int64_t value = 1;
  int64_t timeout_ns = 0;
};
using WantedOf = std::function<Wanted(uint32_t task)>;

Wanted One(uint32_t) { return Wanted(); }

std::vector<SlowTask> Waits(uint32_t count, const WantedOf& wanted_of = One) {
  std::vector<SlowTask> tasks(count);
  for (uint32_t i = 0; i < count; ++i) {
    const Wanted wanted = wanted_of(i);
    tasks[i].kernel = "wait";
    tasks[i].scalars = {PTO_GE, wanted.value, wanted.timeout_ns};
  }
  return tasks;
}

const KernelBody kNoBody = [](uint32_t, const pto_context&) { return 0; };

// Begins `count` waits for one word, and measures how long it takes until `end` has ended them all.
int64_t Measure(uint32_t count, const RunSpec& spec,
                const std::function<void(SlowEngine&, pto::engine::Run&)>& end,
                const WantedOf& wanted = One) {
  SlowEngine node({1});
  const std::shared_ptr<pto::engine::Run> run = node.Start(Waits(count, wanted), kNoBody, spec);
  const int64_t start = CpuNanos();
  node.RunAll();
  EXPECT_EQ(node.engine->waiting(), count);
  end(node, *run);
  node.RunAll();
  const int64_t took = CpuNanos() - start;
  EXPECT_TRUE(IsFinal(run->state()));
  node.ExpectClean();
  return took;
}

void Pass(SlowEngine& node, absl::Duration time) {
  node.clock.Advance(time);
  node.timers.RunDue();
}

TEST(EngineWaitScaleTest, TasksWhoseTimeIsUp) {
  RunSpec spec;
  spec.task_timeout_ns = kSecond;
  ExpectInProportion(
      [&](uint32_t count) {
        return Measure(count, spec, [&](SlowEngine& node, pto::engine::Run& run) {
          Pass(node, absl::Seconds(1));
          node.RunAll();
          EXPECT_EQ(run.counts().failed, count);
        });
      },
      kMost);
}

TEST(EngineWaitScaleTest, WaitsWhoseTimeIsUp) {
  ExpectInProportion([&](uint32_t count) {
    return Measure(
        count, {},
        [&](SlowEngine& node, pto::engine::Run& run) {
          Pass(node, absl::Seconds(2));
          node.RunAll();
          EXPECT_EQ(run.counts().failed, count);
        },
        // The last waiter gives up first.
        [count](uint32_t i) { return Wanted{1, kSecond + count - i}; });
  });
}

TEST(EngineWaitScaleTest, ARunThatIsStopped) {
  RunSpec spec;
  spec.task_timeout_ns = kSecond;
  ExpectInProportion([&](uint32_t count) {
    return Measure(count, spec, [](SlowEngine& node, pto::engine::Run& run) { node.Cancel(run); });
  });
}

TEST(EngineWaitScaleTest, WaitsThatAreNotifiedOneByOne) {
  RunSpec spec;
  spec.task_timeout_ns = kSecond;
  ExpectInProportion([&](uint32_t count) {
    return Measure(
        count, spec,
        [count](SlowEngine& node, pto::engine::Run& run) {
          for (uint32_t i = 0; i < count; ++i) node.Notify(0, PTO_ADD, 1);
          node.RunAll();
          EXPECT_EQ(run.counts().done, count);
        },
        // In no order.
        [count](uint32_t i) { return Wanted{1 + i * int64_t{7919} % count, 0}; });
  });
}

// Half of the blocks wait at the deadline of their task, and the others have not begun.
TEST(EngineWaitScaleTest, BlocksOfOneTaskWhoseTimeIsUp) {
  ExpectInProportion([&](uint32_t count) {
    SlowEngine node({1});
    uint32_t calls = 0;
    const KernelBody body = [&](uint32_t, const pto_context& context) -> int32_t {
      const pto_signal signal = node.signal(0);
      if (++calls == count / 2) Pass(node, absl::Seconds(1));
      return context.api->defer(&context, &signal, PTO_GE, 1, 0);
    };
    const std::shared_ptr<pto::engine::Run> run =
        node.Start({{.kernel = "plain", .block_num = count, .timeout_ns = kSecond}}, body);
    const int64_t start = CpuNanos();
    node.RunAll();
    const int64_t took = CpuNanos() - start;
    EXPECT_EQ(calls, count / 2);
    EXPECT_EQ(run->state(), RunState::kFailed);
    node.ExpectClean();
    return took;
  });
}

// So few deadlines of one run are seen to before another run's.
constexpr uint32_t kAtOnce = 1000;

class OtherRunsTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kWaits = 20'000;

  // Runs of two sessions: one with many expired waits, and one with a single wait.
  void SetUp() override {
    RunSpec spec;
    spec.task_timeout_ns = kSecond;
    spec.account = std::make_shared<Account>("many");
    many_ = node_.Start(Waits(kWaits), kNoBody, spec);
    node_.RunAll();
    // Its time is up when that of all the others is.
    node_.clock.Advance(absl::Nanoseconds(1));
  }

  void StartOne(RunSpec spec) {
    spec.account = std::make_shared<Account>("one");
    one_ = node_.Start(Waits(1), kNoBody, spec);
    node_.RunAll();
    ASSERT_EQ(node_.engine->waiting(), kWaits + 1);
  }

  SlowEngine node_{{1}};
  std::shared_ptr<pto::engine::Run> many_;
  std::shared_ptr<pto::engine::Run> one_;
};

TEST_F(OtherRunsTest, ADeadlineOfARunComesBeforeVeryManyOfAnother) {
  RunSpec spec;
  spec.timeout_ns = kSecond;
  StartOne(spec);
  size_t waiting = 0;
  bool ended = false;
  node_.timers.Schedule(node_.clock.NowNanos() + kSecond + 1, [&] {
    waiting = node_.engine->waiting();
    ended = IsFinal(one_->state());
  });
  Pass(node_, absl::Seconds(2));
  EXPECT_TRUE(ended);
  EXPECT_GE(waiting, kWaits - kAtOnce);
  EXPECT_EQ(node_.engine->waiting(), 0u);
  node_.RunAll();
  EXPECT_EQ(many_->counts().failed, kWaits);
  node_.ExpectClean();
}

TEST_F(OtherRunsTest, ADeadlineOfATaskComesBeforeVeryManyOfAnotherRun) {
  RunSpec spec;
  spec.task_timeout_ns = kSecond;
  StartOne(spec);
  size_t waiting = 0;
  node_.timers.Schedule(node_.clock.NowNanos() + kSecond + 1,
                        [&] { waiting = node_.engine->waiting(); });
  Pass(node_, absl::Seconds(2));
  EXPECT_GE(waiting, kWaits - kAtOnce);
  // All waits have expired; the blocks still have to end.
  EXPECT_EQ(node_.engine->waiting(), 0u);
  for (int i = 0; i < 4 && !IsFinal(one_->state()); ++i) node_.engine->RunOne();
  EXPECT_EQ(one_->state(), RunState::kFailed);
  node_.RunAll();
  EXPECT_EQ(many_->counts().failed, kWaits);
  node_.ExpectClean();
}

TEST(EngineWaitScaleTest, ADeadlineOfOneSessionComesBeforeVeryManyRunsOfAnother) {
  constexpr uint32_t kRuns = 4000;
  SlowEngine node({1});
  std::vector<std::shared_ptr<pto::engine::Run>> runs;
  RunSpec spec;
  spec.account = std::make_shared<Account>("many");
  for (uint32_t i = 0; i < kRuns; ++i) {
    spec.timeout_ns = i % 2 == 0 ? kSecond : 0;
    spec.task_timeout_ns = i % 2 == 1 ? kSecond : 0;
    runs.push_back(node.Start(Waits(1), kNoBody, spec));
  }
  node.RunAll();
  node.clock.Advance(absl::Nanoseconds(1));
  spec.account = std::make_shared<Account>("one");
  spec.timeout_ns = kSecond;
  const std::shared_ptr<pto::engine::Run> one = node.Start(Waits(1), kNoBody, spec);
  node.RunAll();
  size_t waiting = 0;
  bool ended = false;
  node.timers.Schedule(node.clock.NowNanos() + kSecond + 1, [&] {
    waiting = node.engine->waiting();
    ended = IsFinal(one->state());
  });
  Pass(node, absl::Seconds(2));
  EXPECT_TRUE(ended);
  EXPECT_GE(waiting, kRuns - kAtOnce);
  node.RunAll();
  node.ExpectClean();
}

TEST_F(OtherRunsTest, OneRunIsStoppedWithoutALookAtTheOthers) {
  StartOne({});
  Pass(node_, absl::Seconds(2));
  node_.Cancel(*one_);
  EXPECT_EQ(one_->state(), RunState::kCancelled);
  EXPECT_EQ(many_->counts().failed, 0u);
  node_.RunAll();
  node_.ExpectClean();
}

}  // namespace
}  // namespace pto::engine

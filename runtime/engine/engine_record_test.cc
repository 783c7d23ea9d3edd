// What is recorded of tasks: when, where and how each ended.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/ticks.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::TestObserver;
using ::pto::engine::testing::TestTask;

void Spend(double microseconds) {
  const uint64_t until = Ticks() + static_cast<uint64_t>(microseconds * TicksPerMicrosecond());
  while (Ticks() < until) {
  }
}

// The records of one run.
std::vector<TaskRecord> RecordsOf(const std::vector<TestTask>& tasks, uint32_t executors,
                                  engine::testing::KernelBody body) {
  TimerQueue timers(Clock::Real());
  Engine::Options options;
  options.chips = MakeTestChips({4, 4});
  options.timers = &timers;
  options.executors = executors;
  Engine engine(std::move(options));
  RunSpec spec;
  spec.image = MakeTestGraph(tasks, {4, 4}, std::move(body));
  auto observer = std::make_shared<TestObserver>();
  spec.observer = observer;
  engine.Start(engine.Prepare(std::move(spec)), executors == 0 ? 3'600'000'000'000 : 0);
  while (executors == 0 && engine.RunOne()) {
  }
  observer->WaitFinished();
  return observer->records();
}

void ExpectEachOnce(const std::vector<TaskRecord>& records, size_t tasks) {
  std::vector<uint32_t> seen(tasks);
  for (const TaskRecord& record : records) {
    ASSERT_LT(record.task, tasks);
    ++seen[record.task];
    EXPECT_LE(record.start_ns, record.end_ns) << "task " << record.task;
    EXPECT_GE(record.start_ns, 0) << "task " << record.task;
  }
  EXPECT_EQ(seen, std::vector<uint32_t>(tasks, 1));
}

void ExpectOneAtATimeOnEachCore(std::vector<TaskRecord> records) {
  std::sort(records.begin(), records.end(), [](const TaskRecord& a, const TaskRecord& b) {
    return std::make_pair(a.start_ns, a.end_ns) < std::make_pair(b.start_ns, b.end_ns);
  });
  std::map<std::pair<uint32_t, uint32_t>, const TaskRecord*> last;
  for (const TaskRecord& record : records) {
    const TaskRecord*& before = last[{record.chip, record.core}];
    if (before != nullptr) {
      EXPECT_GE(record.start_ns, before->end_ns) << before->task << " and " << record.task;
    }
    before = &record;
  }
}

TEST(EngineRecordTest, ShortAndLongTasksOfManyCores) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    constexpr uint32_t kTasks = 5000;
    std::vector<TestTask> tasks(kTasks);
    std::vector<double> microseconds(kTasks);
    for (uint32_t i = 0; i < kTasks; ++i) {
      const uint32_t reach = i / 300 % 2 == 0 ? 2 : 100;
      for (uint32_t d = random() % 4; i > 0 && d > 0; --d) {
        tasks[i].after.push_back(i - 1 - random() % std::min(i, reach));
      }
      tasks[i].chip = i / 1000 % 2;
      if (random() % 64 == 0) microseconds[i] = random() % 20;
    }
    const std::vector<TaskRecord> records =
        RecordsOf(tasks, seed % 3, [&](uint32_t task, const pto_context&) {
          if (microseconds[task] > 0) Spend(microseconds[task]);
          return 0;
        });
    ExpectEachOnce(records, kTasks);
    ExpectOneAtATimeOnEachCore(records);
    for (const TaskRecord& record : records) {
      EXPECT_EQ(record.outcome, TaskOutcome::kDone);
      EXPECT_EQ(record.chip, tasks[record.task].chip);
      EXPECT_EQ(record.deferred_ns, 0);
    }
  }
}

TEST(EngineRecordTest, TasksOfSomeMicrosecondsHaveTheirOwnTimes) {
  std::vector<TestTask> chain(300);
  for (uint32_t i = 1; i < chain.size(); ++i) chain[i].after = {i - 1};
  const std::vector<TaskRecord> records =
      RecordsOf(chain, 0, [&](uint32_t task, const pto_context&) {
        Spend(task % 2 == 0 ? 3 : 30);
        return 0;
      });
  ExpectEachOnce(records, chain.size());
  ExpectOneAtATimeOnEachCore(records);
  for (const TaskRecord& record : records) {
    EXPECT_GE(record.end_ns - record.start_ns, record.task % 2 == 0 ? 2'900 : 29'000)
        << "task " << record.task;
  }
}

TEST(EngineRecordTest, FailedAndSkippedOnesComeInTheOrderOfTheirEnds) {
  std::vector<TestTask> chain(100);
  for (uint32_t i = 1; i < chain.size(); ++i) chain[i].after = {i - 1};
  const std::vector<TaskRecord> records =
      RecordsOf(chain, 0, [&](uint32_t task, const pto_context&) { return task == 70 ? 1 : 0; });
  ExpectEachOnce(records, chain.size());
  for (uint32_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].task, i);
    EXPECT_EQ(records[i].outcome, i < 70    ? TaskOutcome::kDone
                                  : i == 70 ? TaskOutcome::kFailed
                                            : TaskOutcome::kSkipped);
    if (i == 0) continue;
    EXPECT_GE(records[i].end_ns, records[i - 1].end_ns);
  }
}

TEST(EngineRecordTest, TheTimeThatATaskIsDeferred) {
  for (const char* kernel : {"plain", "waits"}) {
    for (const uint32_t blocks : {1u, 2u}) {
      SlowEngine node({4});
      const engine::testing::KernelBody body = [&](uint32_t task,
                                                   const pto_context& context) -> int32_t {
        if (task != 1) return 0;
        const pto_signal signal = node.signal(0);
        return context.api->defer(&context, &signal, PTO_EQ, 1, 0);
      };
      const std::shared_ptr<pto::engine::Run> run = node.Start(
          {{}, {.kernel = kernel, .after = {0}, .block_num = blocks}, {.after = {1}}}, body);
      node.RunAll();
      EXPECT_EQ(run->state(), RunState::kRunning);
      node.clock.Advance(absl::Milliseconds(5));
      node.Notify(0, PTO_SET, 1);
      node.RunAll();
      EXPECT_EQ(run->state(), RunState::kSucceeded);
      const std::vector<TaskRecord> records = node.observer->records();
      ASSERT_EQ(records.size(), 3u) << kernel << " " << blocks;
      EXPECT_EQ(records[0].deferred_ns, 0);
      EXPECT_EQ(records[1].task, 1u);
      EXPECT_EQ(records[1].deferred_ns, 5'000'000) << kernel << " " << blocks;
      EXPECT_GE(records[1].end_ns - records[1].start_ns, 5'000'000) << kernel << " " << blocks;
      // The first vector core is behind the four cube cores.
      EXPECT_GE(records[1].core, 4u) << kernel << " " << blocks;
      EXPECT_EQ(records[2].deferred_ns, 0);
    }
  }
}

}  // namespace
}  // namespace pto::engine

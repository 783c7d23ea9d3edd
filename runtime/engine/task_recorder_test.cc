#include "runtime/engine/task_recorder.h"

#include <gtest/gtest.h>

namespace pto {
namespace {

TEST(TaskRecorderTest, TurnsTicksIntoTimesAfterTheAcceptance) {
  TaskRecorder recorder;
  recorder.Begin(1'000, 50'000);
  recorder.Add(7, 2, 24, TaskOutcome::kDone, {50'000, 50'200});
  recorder.Add(8, 3, 25, TaskOutcome::kFailed, {50'200, 50'400});
  EXPECT_FALSE(recorder.empty());
  // 400 ticks are 100 ns.
  const absl::Span<const TaskRecord> records = recorder.Finish(1'100, 50'400, 900);
  EXPECT_TRUE(recorder.empty());
  EXPECT_EQ(recorder.base_ns(), 1'100);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].task, 7u);
  EXPECT_EQ(records[0].chip, 2u);
  EXPECT_EQ(records[0].core, 24u);
  EXPECT_EQ(records[0].outcome, TaskOutcome::kDone);
  EXPECT_EQ(records[0].start_ns, 100);
  EXPECT_EQ(records[0].end_ns, 150);
  EXPECT_EQ(records[1].task, 8u);
  EXPECT_EQ(records[1].outcome, TaskOutcome::kFailed);
  EXPECT_EQ(records[1].start_ns, 150);
  EXPECT_EQ(records[1].end_ns, 200);
}

TEST(TaskRecorderTest, KeepsAStartThatIsKnown) {
  TaskRecorder recorder;
  recorder.Begin(1'000, 50'000);
  recorder.Add(1, 0, 0, TaskOutcome::kDone, {50'000, 50'400, 0});
  recorder.Add(2, 0, 0, TaskOutcome::kDone, {50'000, 50'400, 42});
  const absl::Span<const TaskRecord> records = recorder.Finish(1'100, 50'400, 900);
  EXPECT_EQ(records[0].start_ns, 0);
  EXPECT_EQ(records[1].start_ns, 42);
  EXPECT_EQ(records[1].end_ns, 200);
}

// A counter that jumps must not make times that nobody lived through.
TEST(TaskRecorderTest, StaysWithinItsStretch) {
  TaskRecorder recorder;
  recorder.Begin(1'000, 50'000);
  recorder.Add(1, 0, 0, TaskOutcome::kDone, {49'000, 90'000});
  const absl::Span<const TaskRecord> records = recorder.Finish(1'100, 50'400, 900);
  EXPECT_EQ(records[0].start_ns, 100);
  EXPECT_EQ(records[0].end_ns, 200);
}

TEST(TaskRecorderTest, IsFullAtItsCapacityAndThenUsedAgain) {
  TaskRecorder recorder;
  recorder.Begin(0, 0);
  for (uint32_t i = 0; i < TaskRecorder::kCapacity; ++i) {
    EXPECT_FALSE(recorder.full());
    recorder.Add(i, 0, 0, TaskOutcome::kDone, {i, i + 1});
  }
  EXPECT_TRUE(recorder.full());
  EXPECT_EQ(recorder.Finish(1'000, 1'000, 0).size(), TaskRecorder::kCapacity);
  recorder.Add(9, 0, 0, TaskOutcome::kDone, {1'000, 1'500});
  const absl::Span<const TaskRecord> records = recorder.Finish(2'000, 2'000, 0);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].task, 9u);
  EXPECT_EQ(records[0].end_ns, 1'500);
}

}  // namespace
}  // namespace pto

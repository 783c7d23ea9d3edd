#include "runtime/engine/run/task_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pto::engine {
namespace {

using ::testing::ElementsAre;

TEST(TaskRecorderTest, TurnsTicksIntoTimesAfterTheAcceptance) {
  TaskRecorder recorder;
  recorder.Begin(1'000, 50'000);
  recorder.Add(7, 2, 24, TaskOutcome::kDone, {50'000, 50'200});
  recorder.Add(8, 3, 25, TaskOutcome::kFailed, {50'200, 50'400});
  EXPECT_FALSE(recorder.empty());
  // 400 ticks are 100 ns.
  const absl::Span<const TaskRecord> records = recorder.Finish(1'100, 50'400, 900).records;
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
  const absl::Span<const TaskRecord> records = recorder.Finish(1'100, 50'400, 900).records;
  EXPECT_EQ(records[0].start_ns, 0);
  EXPECT_EQ(records[1].start_ns, 42);
  EXPECT_EQ(records[1].end_ns, 200);
}

// A tick counter that jumps must not yield times outside the interval.
TEST(TaskRecorderTest, StaysWithinItsStretch) {
  TaskRecorder recorder;
  recorder.Begin(1'000, 50'000);
  recorder.Add(1, 0, 0, TaskOutcome::kDone, {49'000, 90'000});
  const absl::Span<const TaskRecord> records = recorder.Finish(1'100, 50'400, 900).records;
  EXPECT_EQ(records[0].start_ns, 100);
  EXPECT_EQ(records[0].end_ns, 200);
}

TEST(TaskRecorderTest, KeepsARowBehindTheOthers) {
  TaskRecorder recorder;
  recorder.Begin(1'000, 50'000);
  recorder.Add(7, 2, 24, TaskOutcome::kDone, {50'000, 50'040, -1, 3});
  EXPECT_FALSE(recorder.has_row());
  recorder.AddToRow(8);
  recorder.AddToRow(9);
  EXPECT_EQ(recorder.unmarked(), 2u);
  recorder.MarkRow(50'040, 50'200);
  EXPECT_EQ(recorder.unmarked(), 0u);
  // No tasks were added, so there is nothing to mark.
  recorder.MarkRow(50'200, 50'300);
  recorder.AddToRow(10);
  recorder.MarkRow(50'240, 50'400);
  const TaskRecorder::Written written = recorder.Finish(1'100, 50'400, 900);
  ASSERT_EQ(written.records.size(), 1u);
  EXPECT_EQ(written.records[0].deferred_ns, 3);
  EXPECT_THAT(written.row_tasks, ElementsAre(8, 9, 10));
  ASSERT_EQ(written.row_marks.size(), 2u);
  EXPECT_EQ(written.row_marks[0].end, 2u);
  EXPECT_EQ(written.row_marks[0].start_ns, 110);
  EXPECT_EQ(written.row_marks[0].end_ns, 150);
  EXPECT_EQ(written.row_marks[1].end, 3u);
  EXPECT_EQ(written.row_marks[1].start_ns, 160);
  EXPECT_EQ(written.row_marks[1].end_ns, 200);
  EXPECT_TRUE(recorder.empty());
  EXPECT_TRUE(recorder.Finish(1'200, 50'800, 900).row_tasks.empty());
}

TEST(TaskRecorderTest, OthersFollowARow) {
  TaskRecorder recorder;
  recorder.Begin(1'000, 50'000);
  recorder.AddToRow(1);
  recorder.AddToRow(2);
  recorder.MarkRow(50'000, 50'200);
  ASSERT_TRUE(recorder.EndRow(3, 7));
  EXPECT_FALSE(recorder.has_row());
  recorder.Add(9, 3, 7, TaskOutcome::kFailed, {50'200, 50'400});
  const TaskRecorder::Written written = recorder.Finish(1'100, 50'400, 1'000);
  EXPECT_TRUE(written.row_tasks.empty());
  ASSERT_EQ(written.records.size(), 3u);
  const int64_t ends[] = {25, 50, 100};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(written.records[i].chip, 3u);
    EXPECT_EQ(written.records[i].core, 7u);
    EXPECT_EQ(written.records[i].start_ns, i == 0 ? 0 : ends[i - 1]);
    EXPECT_EQ(written.records[i].end_ns, ends[i]);
  }
  // Without room, the row remains.
  for (uint32_t i = 0; i < TaskRecorder::kCapacity; ++i) recorder.AddToRow(i);
  recorder.MarkRow(50'400, 50'500);
  EXPECT_FALSE(recorder.EndRow(3, 7));
  EXPECT_TRUE(recorder.has_row());
}

TEST(TaskRecorderTest, IsFullWithAFullRow) {
  TaskRecorder recorder;
  recorder.Begin(0, 0);
  for (uint32_t i = 0; i < TaskRecorder::kRowCapacity; ++i) {
    EXPECT_FALSE(recorder.full());
    recorder.AddToRow(i);
  }
  EXPECT_TRUE(recorder.full());
  recorder.MarkRow(0, 1'000);
  EXPECT_EQ(recorder.Finish(1'000, 1'000, 0).row_tasks.size(), TaskRecorder::kRowCapacity);
  EXPECT_FALSE(recorder.full());
}

TEST(TaskRecorderTest, IsFullAtItsCapacityAndThenUsedAgain) {
  TaskRecorder recorder;
  recorder.Begin(0, 0);
  for (uint32_t i = 0; i < TaskRecorder::kCapacity; ++i) {
    EXPECT_FALSE(recorder.full());
    recorder.Add(i, 0, 0, TaskOutcome::kDone, {i, i + 1});
  }
  EXPECT_TRUE(recorder.full());
  EXPECT_EQ(recorder.Finish(1'000, 1'000, 0).records.size(), TaskRecorder::kCapacity);
  recorder.Add(9, 0, 0, TaskOutcome::kDone, {1'000, 1'500});
  const absl::Span<const TaskRecord> records = recorder.Finish(2'000, 2'000, 0).records;
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].task, 9u);
  EXPECT_EQ(records[0].end_ns, 1'500);
}

}  // namespace
}  // namespace pto::engine

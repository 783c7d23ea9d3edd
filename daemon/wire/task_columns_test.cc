#include "daemon/wire/task_columns.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace pto::daemon {
namespace {

// The message that a client receives.
v1::TaskEvents SentAndParsed(const std::vector<engine::TaskRecord>& records, uint64_t skip = 0) {
  v1::TaskEvents sent;
  sent.set_run("sessions/s/runs/r");
  AddTaskColumns(PackedTasks(records), skip, &sent);
  v1::TaskEvents parsed;
  EXPECT_TRUE(parsed.ParseFromString(sent.SerializeAsString()));
  EXPECT_EQ(parsed.GetReflection()->GetUnknownFields(parsed).field_count(), 0);
  EXPECT_EQ(parsed.run(), "sessions/s/runs/r");
  return parsed;
}

void ExpectSame(const std::vector<engine::TaskRecord>& records, const v1::TaskEvents& tasks) {
  const int count = static_cast<int>(records.size());
  ASSERT_EQ(tasks.task_size(), count);
  ASSERT_EQ(tasks.chip_size(), count);
  ASSERT_EQ(tasks.core_size(), count);
  ASSERT_EQ(tasks.start_ns_size(), count);
  ASSERT_EQ(tasks.duration_ns_size(), count);
  for (int i = 0; i < count; ++i) {
    const engine::TaskRecord& record = records[static_cast<size_t>(i)];
    EXPECT_EQ(tasks.task(i), record.task);
    EXPECT_EQ(tasks.chip(i), record.chip);
    EXPECT_EQ(tasks.core(i), record.core);
    EXPECT_EQ(tasks.start_ns(i), static_cast<uint64_t>(record.start_ns));
    EXPECT_EQ(tasks.duration_ns(i), static_cast<uint64_t>(record.end_ns - record.start_ns));
  }
}

TEST(TaskColumnsTest, NumbersOfEveryLength) {
  std::vector<engine::TaskRecord> records;
  for (int bit = 0; bit < 63; ++bit) {
    for (const int64_t around : {-1, 0, 1}) {
      const int64_t value = (int64_t{1} << bit) + around;
      records.push_back({static_cast<uint32_t>(value), static_cast<uint32_t>(value) * 3,
                         static_cast<uint16_t>(value), engine::TaskOutcome::kDone, value / 2, value,
                         0});
    }
  }
  records.push_back({std::numeric_limits<uint32_t>::max(), std::numeric_limits<uint32_t>::max(),
                     std::numeric_limits<uint16_t>::max(), engine::TaskOutcome::kDone, 0,
                     std::numeric_limits<int64_t>::max(), 0});
  const v1::TaskEvents tasks = SentAndParsed(records);
  ExpectSame(records, tasks);
  EXPECT_EQ(tasks.outcome_size(), 0);
}

TEST(TaskColumnsTest, OutcomesWhenNotAllWentWell) {
  const std::vector<engine::TaskRecord> records = {
      {0, 24, 1, engine::TaskOutcome::kDone, 10, 20, 0},
      {1, 25, 1, engine::TaskOutcome::kFailed, 20, 30, 0},
      {2, 0, 2, engine::TaskOutcome::kSkipped, 30, 30, 0}};
  const v1::TaskEvents tasks = SentAndParsed(records);
  ExpectSame(records, tasks);
  ASSERT_EQ(tasks.outcome_size(), 3);
  EXPECT_EQ(tasks.outcome(0), v1::TaskEvents::DONE);
  EXPECT_EQ(tasks.outcome(1), v1::TaskEvents::FAILED);
  EXPECT_EQ(tasks.outcome(2), v1::TaskEvents::SKIPPED);
}

TEST(TaskColumnsTest, DeferredTimesWhenThereAreAny) {
  std::vector<engine::TaskRecord> records = {
      {0, 24, 1, engine::TaskOutcome::kDone, 10, 20, 0},
      {1, 25, 1, engine::TaskOutcome::kDone, 20, 3000, 2900}};
  const v1::TaskEvents tasks = SentAndParsed(records);
  ExpectSame(records, tasks);
  ASSERT_EQ(tasks.deferred_ns_size(), 2);
  EXPECT_EQ(tasks.deferred_ns(1), 2900u);
  records.pop_back();
  EXPECT_EQ(SentAndParsed(records).deferred_ns_size(), 0);
}

TEST(TaskColumnsTest, TheRestOfABlock) {
  const std::vector<engine::TaskRecord> records = {
      {0, 24, 1, engine::TaskOutcome::kDone, 10, 20, 0},
      {300, 25, 1, engine::TaskOutcome::kFailed, 200, 300, 0},
      {2, 0, 2, engine::TaskOutcome::kSkipped, 30, 30, 0}};
  const v1::TaskEvents tasks = SentAndParsed(records, 1);
  ExpectSame({records[1], records[2]}, tasks);
  ASSERT_EQ(tasks.outcome_size(), 2);
  EXPECT_EQ(tasks.outcome(1), v1::TaskEvents::SKIPPED);
}

}  // namespace
}  // namespace pto::daemon

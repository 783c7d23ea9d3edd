#include "daemon/events/packed_tasks.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace pto::daemon {
namespace {

// The numbers of a column, read in the plainest way.
std::vector<uint64_t> Numbers(const PackedTasks& tasks, PackedTasks::Column column,
                              uint64_t skip = 0) {
  std::vector<uint64_t> numbers;
  uint64_t value = 0;
  int shift = 0;
  for (const char byte : tasks.Get(column, skip)) {
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    shift += 7;
    if ((byte & 0x80) != 0) continue;
    numbers.push_back(value);
    value = 0;
    shift = 0;
  }
  EXPECT_EQ(shift, 0) << "a number without an end";
  return numbers;
}

void ExpectSame(const std::vector<engine::TaskRecord>& records, const PackedTasks& tasks,
                uint64_t skip) {
  const auto check = [&](PackedTasks::Column column, auto value_of) {
    std::vector<uint64_t> wanted;
    for (size_t i = skip; i < records.size(); ++i) {
      wanted.push_back(static_cast<uint64_t>(value_of(records[i])));
    }
    EXPECT_EQ(Numbers(tasks, column, skip), wanted) << "column " << column << " after " << skip;
  };
  check(PackedTasks::kTask, [](const engine::TaskRecord& r) { return r.task; });
  check(PackedTasks::kChip, [](const engine::TaskRecord& r) { return r.chip; });
  check(PackedTasks::kCore, [](const engine::TaskRecord& r) { return r.core; });
  check(PackedTasks::kStartNs, [](const engine::TaskRecord& r) { return r.start_ns; });
  check(PackedTasks::kDurationNs,
        [](const engine::TaskRecord& r) { return r.end_ns - r.start_ns; });
}

std::vector<engine::TaskRecord> RecordsOfEveryLength() {
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
  return records;
}

TEST(PackedTasksTest, NumbersOfEveryLength) {
  const std::vector<engine::TaskRecord> records = RecordsOfEveryLength();
  const PackedTasks tasks(records);
  ExpectSame(records, tasks, 0);
  EXPECT_TRUE(tasks.Get(PackedTasks::kOutcome, 0).empty());
}

TEST(PackedTasksTest, LeavesOutTheFirst) {
  const std::vector<engine::TaskRecord> records = RecordsOfEveryLength();
  const PackedTasks tasks(records);
  for (uint64_t skip = 0; skip <= records.size(); ++skip) ExpectSame(records, tasks, skip);
}

TEST(PackedTasksTest, TheLongestThereIs) {
  const engine::TaskRecord longest = {std::numeric_limits<uint32_t>::max(),
                                      std::numeric_limits<uint32_t>::max(),
                                      std::numeric_limits<uint16_t>::max(),
                                      engine::TaskOutcome::kFailed,
                                      -1,
                                      -2,
                                      -1};
  const std::vector<engine::TaskRecord> records(engine::RecordBlocks::kMaxBlock, longest);
  ExpectSame(records, PackedTasks(records), 0);
}

TEST(PackedTasksTest, OutcomesWhenNotAllWentWell) {
  const std::vector<engine::TaskRecord> records = {
      {0, 24, 1, engine::TaskOutcome::kDone, 10, 20, 0},
      {1, 25, 1, engine::TaskOutcome::kFailed, 20, 30, 0},
      {2, 0, 2, engine::TaskOutcome::kSkipped, 30, 30, 0}};
  const PackedTasks tasks(records);
  EXPECT_EQ(Numbers(tasks, PackedTasks::kOutcome), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(Numbers(tasks, PackedTasks::kOutcome, 2), (std::vector<uint64_t>{3}));
  ExpectSame(records, tasks, 0);
}

TEST(PackedTasksTest, DeferredTimesWhenThereAreAny) {
  const std::vector<engine::TaskRecord> records = {
      {0, 24, 1, engine::TaskOutcome::kDone, 10, 20, 0},
      {1, 25, 1, engine::TaskOutcome::kDone, 20, 3000, 2900}};
  const PackedTasks tasks(records);
  EXPECT_EQ(Numbers(tasks, PackedTasks::kDeferredNs), (std::vector<uint64_t>{0, 2900}));
  EXPECT_EQ(Numbers(tasks, PackedTasks::kDeferredNs, 1), (std::vector<uint64_t>{2900}));
  ExpectSame(records, tasks, 0);
  EXPECT_TRUE(PackedTasks({records.data(), 1}).Get(PackedTasks::kDeferredNs, 0).empty());
}

TEST(PackedTasksTest, CopiesShareAndOutliveTheFirst) {
  std::vector<engine::TaskRecord> records(100);
  for (uint32_t i = 0; i < 100; ++i)
    records[i] = {i, 1, 0, engine::TaskOutcome::kDone, 2 * i, 3 * i, 0};
  PackedTasks copy;
  {
    const PackedTasks tasks(records);
    copy = tasks;
    EXPECT_EQ(copy.Get(PackedTasks::kTask, 0).data(), tasks.Get(PackedTasks::kTask, 0).data());
  }
  ExpectSame(records, copy, 0);
}

// A log is bounded in bytes: this is what makes it hold many.
TEST(PackedTasksTest, TakesAboutTenBytesForATask) {
  std::vector<engine::TaskRecord> records(1000);
  for (uint32_t i = 0; i < 1000; ++i) {
    records[i] = {50'000 + i,          24, 0, engine::TaskOutcome::kDone, 5'000'000 + 100 * i,
                  5'000'090 + 100 * i, 0};
  }
  EXPECT_LE(PackedTasks(records).bytes(), 11'000u);
}

TEST(PackedTasksTest, NoneAtAll) {
  const PackedTasks none((absl::Span<const engine::TaskRecord>()));
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_TRUE(none.Get(PackedTasks::kTask, 0).empty());
  EXPECT_TRUE(PackedTasks().Get(PackedTasks::kDurationNs, 5).empty());
}

}  // namespace
}  // namespace pto::daemon

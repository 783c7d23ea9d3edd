#include "runtime/engine/run/record_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace pto::engine {
namespace {

std::vector<TaskRecord> Numbered(uint32_t count, uint32_t first) {
  std::vector<TaskRecord> records(count);
  for (uint32_t i = 0; i < count; ++i) records[i].task = first + i;
  return records;
}

TEST(RecordBlocksTest, KeepsTheOrderAndTheSizeOfBlocks) {
  for (const uint32_t portion : {1u, 64u, 1000u, 1024u, 5000u}) {
    RecordBlocks blocks;
    uint32_t added = 0;
    for (; added < 10'000; added += portion) blocks.Add(Numbered(portion, added));
    uint32_t next = 0;
    const std::vector<RecordBlock> taken = blocks.Take();
    for (const RecordBlock& block : taken) {
      const size_t left = added - next;
      EXPECT_EQ(block.count, std::min<size_t>(left, RecordBlocks::kMaxBlock));
      for (size_t i = 0; i < block.count; ++i) ASSERT_EQ(block.records[i].task, next++);
    }
    EXPECT_EQ(next, added);
    EXPECT_TRUE(blocks.Take().empty());
  }
}

TEST(RecordBlocksTest, WhatWasTakenStaysAsItIs) {
  RecordBlocks blocks;
  blocks.Add(Numbered(2000, 0));
  const std::vector<RecordBlock> taken = blocks.Take();
  ASSERT_EQ(taken.size(), 2u);
  blocks.Add(Numbered(100, 5000));
  EXPECT_EQ(taken[1].count, 976u);
  EXPECT_EQ(taken[1].records[975].task, 1999u);
  const std::vector<RecordBlock> rest = blocks.Take();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].count, 100u);
  EXPECT_EQ(rest[0].records[0].task, 5000u);
}

TEST(RecordBlocksTest, TellsOfTheFirstAndOfEveryBatch) {
  RecordBlocks blocks;
  EXPECT_EQ(blocks.Add(Numbered(1, 0)), 1u);
  EXPECT_EQ(blocks.Add(Numbered(1022, 0)), 0u);
  EXPECT_EQ(blocks.Add(Numbered(1, 0)), 1024u);
  EXPECT_EQ(blocks.Add(Numbered(1023, 0)), 0u);
  EXPECT_EQ(blocks.Add(Numbered(2, 0)), 2049u);
  blocks.Take();
  EXPECT_EQ(blocks.Add(Numbered(5, 0)), 5u);
}

// A row of tasks from `first` on, with a mark after every `together` of them.
struct TestRow {
  TestRow(uint32_t count, uint32_t first, uint32_t together, int64_t start_ns) {
    for (uint32_t i = 0; i < count; ++i) tasks.push_back(first + i);
    for (uint32_t end = 0; end < count;) {
      end = std::min(end + together, count);
      marks.push_back({end, start_ns, start_ns + 100});
      start_ns += 150;
    }
    row.core = 5;
    row.chip = 3;
    row.tasks = tasks;
    row.marks = marks;
  }
  std::vector<uint32_t> tasks;
  std::vector<TaskRow::Mark> marks;
  TaskRow row;
};

TEST(RecordBlocksTest, SharesATimeAmongTheTasksOfAMark) {
  for (const uint32_t count : {6u, 600u}) {
    RecordBlocks blocks;
    const TestRow row(count, 10, 3, 1000);
    EXPECT_EQ(blocks.AddRow(row.row), count);
    const std::vector<RecordBlock> taken = blocks.Take();
    ASSERT_EQ(taken.size(), 1u);
    ASSERT_EQ(taken[0].count, count);
    const int64_t ends[] = {34, 67, 100};
    for (uint32_t i = 0; i < count; ++i) {
      const TaskRecord& record = taken[0].records[i];
      const int64_t mark = 1000 + 150 * (i / 3);
      EXPECT_EQ(record.task, 10 + i);
      EXPECT_EQ(record.core, 5u);
      EXPECT_EQ(record.chip, 3u);
      EXPECT_EQ(record.outcome, TaskOutcome::kDone);
      EXPECT_EQ(record.start_ns, mark + (i % 3 == 0 ? 0 : ends[i % 3 - 1]));
      EXPECT_EQ(record.end_ns, mark + ends[i % 3]);
      EXPECT_EQ(record.deferred_ns, 0);
    }
  }
}

TEST(RecordBlocksTest, KeepsRowsOfAnyNumbersAndTimes) {
  const std::vector<uint32_t> far = {0, 4'000'000'000, 5, 32'772, 4, 0xffffffff, 0, 1'000'000};
  const std::vector<int64_t> times = {0, 10, 5'000'000'000, 20'000'000'000'000, 20'000'000'000'001};
  for (const bool wide_tasks : {false, true}) {
    for (const bool wide_times : {false, true}) {
      std::vector<uint32_t> tasks;
      std::vector<TaskRow::Mark> marks;
      for (uint32_t i = 0; i < 40; ++i) {
        tasks.push_back(wide_tasks ? far[i % far.size()] : 70'000 - 3 * i);
        const int64_t start = wide_times ? times[i / 10] : 100 * i;
        marks.push_back({i + 1, start + i, start + i + 1});
      }
      TaskRow row;
      row.tasks = tasks;
      row.marks = marks;
      RecordBlocks blocks;
      blocks.AddRow(row);
      const std::vector<RecordBlock> taken = blocks.Take();
      ASSERT_EQ(taken.size(), 1u);
      ASSERT_EQ(taken[0].count, 40u);
      for (uint32_t i = 0; i < 40; ++i) {
        EXPECT_EQ(taken[0].records[i].task, tasks[i]);
        EXPECT_EQ(taken[0].records[i].start_ns, marks[i].start_ns);
        EXPECT_EQ(taken[0].records[i].end_ns, marks[i].end_ns);
      }
    }
  }
}

TEST(RecordBlocksTest, KeepsRowsAndRecordsInOrder) {
  RecordBlocks blocks;
  uint32_t added = 0;
  // Sizes vary, so that blocks end at various places.
  for (uint32_t size = 1; size < 2000; size = size * 3 / 2 + 1) {
    blocks.Add(Numbered(size, added));
    added += size;
    for (const uint32_t row_size : {size, 1024u, 10u}) {
      blocks.AddRow(TestRow(row_size, added, 16, 0).row);
      added += row_size;
    }
  }
  uint32_t next = 0;
  for (const RecordBlock& block : blocks.Take()) {
    EXPECT_EQ(block.count, std::min<size_t>(added - next, RecordBlocks::kMaxBlock));
    for (size_t i = 0; i < block.count; ++i) ASSERT_EQ(block.records[i].task, next++);
  }
  EXPECT_EQ(next, added);
  EXPECT_TRUE(blocks.Take().empty());
}

TEST(RecordBlocksTest, TellsOfRowsToo) {
  RecordBlocks blocks;
  EXPECT_EQ(blocks.AddRow(TestRow(20, 0, 4, 0).row), 20u);
  EXPECT_EQ(blocks.AddRow(TestRow(1003, 0, 16, 0).row), 0u);
  EXPECT_EQ(blocks.Add(Numbered(1, 0)), 1024u);
}

TEST(RecordBlocksTest, LosesNothingWithSeveralThreads) {
  constexpr uint32_t kEach = 20'000;
  RecordBlocks blocks;
  std::atomic<int> adding{2};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kEach; i += 50) blocks.Add(Numbered(50, t * kEach + i));
      --adding;
    });
  }
  uint32_t next[2] = {0, kEach};
  while (true) {
    const bool last = adding == 0;
    for (const RecordBlock& block : blocks.Take()) {
      for (size_t i = 0; i < block.count; ++i) {
        const uint32_t task = block.records[i].task;
        ASSERT_EQ(task, next[task / kEach]++);
      }
    }
    if (last) break;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(next[0], kEach);
  EXPECT_EQ(next[1], 2 * kEach);
}

}  // namespace
}  // namespace pto::engine

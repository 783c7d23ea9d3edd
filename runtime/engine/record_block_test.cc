#include "runtime/engine/record_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace pto {
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
}  // namespace pto

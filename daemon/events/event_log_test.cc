#include "daemon/events/event_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "runtime/base/memory_account.h"

namespace pto::daemon {
namespace {

std::shared_ptr<const RunRecord> MakeRun(const std::string& id) {
  auto run = std::make_shared<RunRecord>();
  run->id = id;
  return run;
}

std::vector<engine::RecordBlock> MakeRecords(uint32_t count, uint32_t first = 0) {
  std::vector<engine::TaskRecord> records(count);
  for (uint32_t i = 0; i < count; ++i) {
    records[i].task = first + i;
    records[i].end_ns = first + i;
  }
  engine::RecordBlocks blocks;
  blocks.Add(records);
  return blocks.Take();
}

// Reads everything after `after` and checks that the numbers have no gap and no repetition.
// Returns how many of them were reported as dropped.
uint64_t ReadAll(const EventLog& log, uint64_t after, uint64_t batch) {
  uint64_t dropped = 0;
  while (true) {
    const std::vector<LogEntry> entries = log.Read(after, batch);
    if (entries.empty()) break;
    for (const LogEntry& entry : entries) {
      EXPECT_EQ(entry.sequence, after + 1);
      EXPECT_GE(entry.count, 1u);
      if (const auto* gap = std::get_if<Dropped>(&entry.event)) {
        EXPECT_EQ(gap->last_sequence, entry.last_sequence());
        dropped += entry.count;
      }
      after = entry.last_sequence();
    }
  }
  EXPECT_EQ(after, log.last_sequence());
  return dropped;
}

TEST(EventLogTest, NumbersFromOneWithoutGaps) {
  EventLog log(1 << 20);
  const auto run = MakeRun("a");
  EXPECT_EQ(log.last_sequence(), 0u);
  EXPECT_TRUE(log.Read(0, 100).empty());
  EXPECT_EQ(log.AppendRun(run, engine::RunState::kQueued, absl::Now()), 1u);
  EXPECT_EQ(log.AppendTasks(run, MakeRecords(3)), 4u);
  EXPECT_EQ(log.AppendTasks(run, {}), 4u);
  EXPECT_EQ(log.AppendRun(run, engine::RunState::kQueued, absl::Now()), 5u);
  EXPECT_EQ(ReadAll(log, 0, 100), 0u);
  const std::vector<LogEntry> entries = log.Read(0, 100);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(std::get<RunEvent>(entries[2].event).run, run);
  EXPECT_EQ(entries[2].sequence, 5u);
}

TEST(EventLogTest, ResumesAnywhereAlsoInsideABlock) {
  EventLog log(1 << 20);
  const auto run = MakeRun("a");
  log.AppendRun(run, engine::RunState::kQueued, absl::Now());
  log.AppendTasks(run, MakeRecords(10));
  log.AppendTasks(run, MakeRecords(5, 10));
  for (uint64_t after = 0; after <= 16; ++after) {
    for (const uint64_t batch : {1, 4, 100}) EXPECT_EQ(ReadAll(log, after, batch), 0u);
  }
  const std::vector<LogEntry> entries = log.Read(4, 1);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].sequence, 5u);
  EXPECT_EQ(entries[0].skip, 3u);
  EXPECT_EQ(entries[0].count, 7u);
}

TEST(EventLogTest, KeepsBlocksAndTheirTimes) {
  EventLog log(1 << 20);
  log.AppendTasks(MakeRun("a"), MakeRecords(2500));
  EXPECT_EQ(log.last_sequence(), 2500u);
  uint32_t next = 0;
  for (const LogEntry& entry : log.Read(0, 10'000)) {
    const auto& block = std::get<TaskBlock>(entry.event);
    EXPECT_LE(entry.count, 1024u);
    std::vector<engine::TaskRecord> same(entry.count);
    for (engine::TaskRecord& record : same) {
      record.task = next;
      record.end_ns = next++;
    }
    EXPECT_EQ(block.tasks.Get(PackedTasks::kTask, 0), PackedTasks(same).Get(PackedTasks::kTask, 0));
    EXPECT_EQ(entry.time, block.run->create_time + absl::Nanoseconds(next - 1));
  }
  EXPECT_EQ(next, 2500u);
}

TEST(EventLogTest, DropsTaskEventsFirstAndSaysSo) {
  EventLog log(32 << 10);
  const auto run = MakeRun("a");
  log.AppendRun(run, engine::RunState::kQueued, absl::Now());
  for (int i = 0; i < 100; ++i) log.AppendTasks(run, MakeRecords(100));
  log.AppendRun(run, engine::RunState::kQueued, absl::Now());
  EXPECT_LE(log.bytes(), 32u << 10);
  const uint64_t dropped = ReadAll(log, 0, 64);
  EXPECT_GT(dropped, 5000u);
  EXPECT_LT(dropped, 10'000u);
  // Both events about the run are still there.
  int runs = 0;
  for (const LogEntry& entry : log.Read(0, 100'000)) {
    runs += std::holds_alternative<RunEvent>(entry.event) ? 1 : 0;
  }
  EXPECT_EQ(runs, 2);
}

TEST(EventLogTest, ErrorsGoBeforeTheStatesOfOtherRuns) {
  EventLog log(64 << 10);
  const auto other = std::make_shared<RunRecord>();
  log.AppendRun(other, engine::RunState::kQueued, absl::UnixEpoch());
  log.AppendRun(other, engine::RunState::kSucceeded, absl::UnixEpoch());
  const auto run = std::make_shared<RunRecord>();
  const auto errors = std::make_shared<const std::vector<absl::Status>>(
      RunErrors::kMost, absl::InternalError("something went wrong"));
  for (int i = 0; i < 100; ++i) {
    LogEntry entry;
    entry.event = RunErrors{run, errors};
    log.Append(absl::MakeSpan(&entry, 1));
  }
  EXPECT_LE(log.bytes(), uint64_t{64} << 10);
  const std::vector<LogEntry> entries = log.Read(0, 1000);
  ASSERT_GT(entries.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<RunEvent>(entries[0].event));
  EXPECT_TRUE(std::holds_alternative<RunEvent>(entries[1].event));
  EXPECT_TRUE(std::holds_alternative<Dropped>(entries[2].event));
  EXPECT_TRUE(std::holds_alternative<RunErrors>(entries.back().event));
}

TEST(EventLogTest, StaysBoundedWithRunsAlone) {
  EventLog log(32 << 10);
  const auto run = MakeRun("a");
  for (int i = 0; i < 10'000; ++i) log.AppendRun(run, engine::RunState::kQueued, absl::Now());
  EXPECT_LE(log.bytes(), 32u << 10);
  EXPECT_GT(ReadAll(log, 0, 64), 9000u);
  // One who is up to date misses nothing.
  EXPECT_EQ(ReadAll(log, 9990, 64), 0u);
}

TEST(EventLogTest, OldRunsDoNotPushOutNewTasks) {
  EventLog log(32 << 10);
  const auto run = MakeRun("a");
  for (int i = 0; i < 1000; ++i) log.AppendRun(run, engine::RunState::kQueued, absl::Now());
  const uint64_t before = log.last_sequence();
  log.AppendTasks(run, MakeRecords(100));
  EXPECT_EQ(ReadAll(log, before, 64), 0u);
  EXPECT_LE(log.bytes(), 32u << 10);
}

// Task blocks are found again by their place also after others went before them.
TEST(EventLogTest, DropsInOrderWhateverComesBetween) {
  EventLog log(64 << 10);
  const auto run = MakeRun("a");
  for (int i = 0; i < 2000; ++i) {
    log.AppendRun(run, i % 3 == 0 ? engine::RunState::kQueued : engine::RunState::kRunning,
                  absl::Now());
    log.AppendTasks(run, MakeRecords(1 + i % 50));
    ASSERT_LE(log.bytes(), 64u << 10);
  }
  EXPECT_GT(ReadAll(log, 0, 64), 0u);
}

TEST(EventLogTest, TheEndIsAnEvent) {
  EventLog log(1 << 20);
  EXPECT_FALSE(log.ended());
  log.AppendSessionEnded("it was deleted", absl::Now());
  EXPECT_TRUE(log.ended());
  const std::vector<LogEntry> entries = log.Read(0, 10);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(std::get<SessionEnded>(entries[0].event).why, "it was deleted");
}

class CountingWatcher final : public EventWatcher {
 public:
  void OnEvents(bool urgent) override { ++(urgent ? urgent_calls : calls); }
  std::atomic<int> calls{0};
  std::atomic<int> urgent_calls{0};
};

TEST(EventLogTest, TakesSeveralAtOnceInOrder) {
  EventLog log(1 << 20);
  const auto run = MakeRun("a");
  auto watcher = std::make_shared<CountingWatcher>();
  log.AddWatcher(watcher);
  std::vector<LogEntry> story(1);
  story[0].event = RunEvent{run, engine::RunState::kQueued};
  EventLog::AddTasks(run, MakeRecords(3), &story);
  story.emplace_back().event = RunEvent{run, engine::RunState::kSucceeded};
  EXPECT_EQ(log.Append(absl::MakeSpan(story)), 5u);
  EXPECT_EQ(ReadAll(log, 0, 100), 0u);
  EXPECT_EQ(std::get<RunEvent>(log.Read(4, 1)[0].event).state, engine::RunState::kSucceeded);
  EXPECT_EQ(watcher->urgent_calls, 1);
  EXPECT_EQ(log.Append({}), 5u);
}

TEST(EventLogTest, TellsWatchersUntilTheyAreRemoved) {
  EventLog log(1 << 20);
  const auto run = MakeRun("a");
  auto watcher = std::make_shared<CountingWatcher>();
  log.AppendRun(run, engine::RunState::kQueued, absl::Now());
  log.AddWatcher(watcher);
  EXPECT_TRUE(log.has_watchers());
  log.AppendTasks(run, MakeRecords(1));
  log.Nudge();
  log.AppendRun(run, engine::RunState::kQueued, absl::Now());
  EXPECT_EQ(watcher->calls, 2);
  EXPECT_EQ(watcher->urgent_calls, 1);
  log.RemoveWatcher(watcher.get());
  EXPECT_FALSE(log.has_watchers());
  log.AppendRun(run, engine::RunState::kQueued, absl::Now());
  EXPECT_EQ(watcher->urgent_calls, 1);
}

// Writers and readers at the same time, with a log that has to drop: no reader ever sees a gap
// that is not reported, or a number twice.
TEST(EventLogTest, WhatItHasIsChargedAndGivenBack) {
  const auto memory = std::make_shared<MemoryAccount>("all", "bytes", 1 << 20);
  {
    EventLog log(1 << 20, memory);
    EXPECT_EQ(memory->used(), 0u);
    const auto run = MakeRun("a");
    for (uint32_t i = 0; i < 20; ++i) log.AppendTasks(run, MakeRecords(1000, 1000 * i));
    EXPECT_GE(memory->used(), log.bytes());
    EXPECT_LE(memory->used(), log.bytes() + (16 << 10));
    EXPECT_EQ(ReadAll(log, 0, 1000), 0u);
  }
  EXPECT_EQ(memory->used(), 0u);
}

TEST(EventLogTest, WithoutRoomOldEventsGoButForAFloor) {
  const auto memory = std::make_shared<MemoryAccount>("all", "bytes", 200 << 10);
  memory->Charge(100 << 10);
  EventLog log(1 << 20, memory);
  const auto run = MakeRun("a");
  for (uint32_t i = 0; i < 50; ++i) log.AppendTasks(run, MakeRecords(1000, 1000 * i));
  EXPECT_LE(log.bytes(), uint64_t{100} << 10);
  EXPECT_GE(log.bytes(), EventLog::kFloor);
  EXPECT_LE(memory->used(), uint64_t{200} << 10);
  EXPECT_GT(ReadAll(log, 0, 1000), 0u);
  // Without any room it still works, and takes the floor.
  memory->Charge(1 << 20);
  EventLog other(1 << 20, memory);
  for (uint32_t i = 0; i < 50; ++i) other.AppendTasks(run, MakeRecords(1000, 1000 * i));
  EXPECT_LE(other.bytes(), EventLog::kFloor);
  EXPECT_GT(other.bytes(), EventLog::kFloor / 2);
  EXPECT_EQ(other.last_sequence(), 50'000u);
  EXPECT_GT(ReadAll(other, 0, 1000), 0u);
}

TEST(EventLogTest, ShedsOldEventsButForAFloor) {
  const auto memory = std::make_shared<MemoryAccount>("all", "bytes", 10 << 20);
  EventLog log(1 << 20, memory);
  const auto run = MakeRun("a");
  for (uint32_t i = 0; i < 30; ++i) log.AppendTasks(run, MakeRecords(1000, 1000 * i));
  // No less than is asked for: who asks has no room for less.
  for (const uint64_t bytes : {1, 1000, 16 << 10, 50 << 10, (16 << 10) + 1}) {
    const uint64_t before = memory->used();
    const uint64_t shed = log.Shed(bytes);
    EXPECT_GE(shed, bytes);
    EXPECT_LE(shed, bytes + (32 << 10)) << bytes;
    EXPECT_EQ(memory->used(), before - shed);
    EXPECT_GE(memory->used(), log.bytes());
  }
  log.Shed(100 << 20);
  EXPECT_LE(log.bytes(), EventLog::kFloor);
  EXPECT_EQ(log.Shed(100 << 20), 0u);
  EXPECT_GT(ReadAll(log, 0, 1000), 0u);
}

TEST(EventLogTest, ReadersKeepUpWithWriters) {
  EventLog log(256 << 10);
  std::atomic<bool> writing{true};
  std::vector<std::thread> threads;
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back([&log, w] {
      const auto run = MakeRun(w == 0 ? "a" : "b");
      std::mt19937 random(static_cast<uint32_t>(w));
      for (int i = 0; i < 500; ++i) {
        log.AppendRun(run, engine::RunState::kQueued, absl::Now());
        log.AppendTasks(run, MakeRecords(random() % 300));
      }
    });
  }
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&] {
      uint64_t after = 0;
      while (true) {
        const bool last = !writing;
        const std::vector<LogEntry> entries = log.Read(after, 500);
        for (const LogEntry& entry : entries) {
          ASSERT_EQ(entry.sequence, after + 1);
          after = entry.last_sequence();
        }
        if (entries.empty() && last) break;
      }
      EXPECT_EQ(after, log.last_sequence());
    });
  }
  threads[0].join();
  threads[1].join();
  writing = false;
  threads[2].join();
  threads[3].join();
}

}  // namespace
}  // namespace pto::daemon

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/spin_lock.h"

namespace pto {

// kPassedOver: its predicate did not hold, so it counts as done without having been run.
enum class TaskOutcome : uint8_t { kDone = 1, kFailed, kSkipped, kPassedOver };

// How and when one task ended. Times are in ns after the run was accepted.
// Nothing is initialised: blocks are made for thousands of them, which are all written anyway.
struct TaskRecord {
  uint32_t task;
  uint32_t core;
  uint16_t chip;
  TaskOutcome outcome;
  int64_t start_ns;
  int64_t end_ns;
  // So long before its end its last kernel had returned, and its core was free: it waited for its
  // conditions. 0 for most.
  int64_t deferred_ns;
};

// Tasks that one core ran well and one after the other, with a few times for many of them: what a
// short task costs to record is a number.
struct TaskRow {
  // All tasks after those of the mark before, up to place `end`, took the same part of this time.
  struct Mark {
    uint32_t end;
    int64_t start_ns;
    int64_t end_ns;
  };

  uint32_t core = 0;
  uint16_t chip = 0;
  absl::Span<const uint32_t> tasks;
  absl::Span<const Mark> marks;  // the last one ends with the last task
};

// Records that are there to stay: who takes a block may keep and share it, and copies nothing.
struct RecordBlock {
  std::shared_ptr<TaskRecord[]> records;
  size_t count = 0;
};

// The records of one run from the workers that add them to whoever takes them, in blocks. Rows are
// made into records when they are taken. Thread-safe.
class RecordBlocks {
 public:
  // No block has more.
  static constexpr size_t kMaxBlock = 1024;

  // Returns how many wait when that is worth telling: with the first one, and with as many more
  // as fill a block. Else 0.
  size_t Add(absl::Span<const TaskRecord> records);
  size_t AddRow(const TaskRow& row);

  // Takes what has come since the last time, in order.
  std::vector<RecordBlock> Take();

 private:
  // So few are made into records at once: that is less to do than to keep their row.
  static constexpr size_t kFewTasks = 16;

  // Blocks of which the last one may have room.
  struct Filling {
    std::vector<RecordBlock> blocks;
    size_t capacity = 0;  // of the last one
    bool filled_one = false;

    void Add(absl::Span<const TaskRecord> records);
    // Makes room in the last one, and returns for how many of `count`.
    size_t MakeRoom(size_t count);
    TaskRecord* end() { return blocks.back().records.get() + blocks.back().count; }
    void Grow(size_t count);
  };
  // A row that is kept. Memory that is new to the process costs more than all else here, so most
  // take half of what they would: tasks as distances from the one before.
  struct KeptRow {
    // Times from the end of the mark before.
    struct Mark {
      uint32_t count;
      int32_t start_ns;
      int32_t end_ns;
    };

    // So much memory it needs at most.
    static size_t MostBytes(const TaskRow& row);
    // In this memory, which is aligned for everything and stays where it is. Returns what is left.
    std::byte* Keep(const TaskRow& row, std::byte* memory);
    // As it was given, in this memory.
    TaskRow Restore(std::vector<uint32_t>* tasks, std::vector<TaskRow::Mark>* marks) const;

    size_t blocks_before = 0;   // in `filling_`
    size_t records_before = 0;  // in the last of these
    uint32_t core = 0;
    uint16_t chip = 0;
    uint32_t first_task = 0;
    int64_t first_ns = 0;
    absl::Span<const Mark> marks;
    absl::Span<const int16_t> distances;
    // In place of these, when one is too large for them.
    absl::Span<const uint32_t> wide_tasks;
    absl::Span<const TaskRow::Mark> wide_marks;
  };
  // Memory of rows, in pieces that are worth the way to the system.
  struct RowMemory {
    std::vector<std::unique_ptr<std::byte[]>> pieces;
    std::byte* next = nullptr;
    size_t left = 0;
    size_t last_bytes = 0;

    // Makes sure that there are so many.
    std::byte* Reserve(size_t bytes);
  };

  // Adds a row's records.
  static void Expand(const TaskRow& row, Filling* filling);
  // Counts what was added, and returns what Add does.
  size_t Count(size_t added);

  SpinLock lock_;
  // All guarded by lock_.
  Filling filling_;
  std::vector<KeptRow> rows_;
  RowMemory row_memory_;
  size_t waiting_ = 0;
};

}  // namespace pto

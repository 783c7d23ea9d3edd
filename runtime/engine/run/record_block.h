#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/spin_lock.h"

namespace pto::engine {

// kPassedOver: its predicate was false, so it counts as done but did not run.
enum class TaskOutcome : uint8_t { kDone = 1, kFailed, kSkipped, kPassedOver };

// How and when one task ended. Times are in ns after the run was accepted. Not initialised, because
// blocks have thousands of records and all are written.
struct TaskRecord {
  uint32_t task;
  uint32_t core;
  uint16_t chip;
  TaskOutcome outcome;
  int64_t start_ns;
  int64_t end_ns;
  // The time from the return of its last kernel, when its core became free, to its end: the task
  // waited for its conditions. Usually 0.
  int64_t deferred_ns;
};

// Tasks that one core ran successfully one after the other, with few times for many tasks, so that
// recording a short task costs only its number.
struct TaskRow {
  // The tasks after the previous mark, up to index `end`, share this time equally.
  struct Mark {
    uint32_t end;
    int64_t start_ns;
    int64_t end_ns;
  };

  uint32_t core = 0;
  uint16_t chip = 0;
  absl::Span<const uint32_t> tasks;
  absl::Span<const Mark> marks;  // the last mark ends with the last task
};

// Immutable records: a reader may keep and share a block without copying it.
struct RecordBlock {
  std::shared_ptr<TaskRecord[]> records;
  size_t count = 0;
};

// Passes the records of one run from workers to a reader, in blocks. Rows are expanded into records
// when they are taken. Thread-safe.
class RecordBlocks {
 public:
  // The maximum number of records in a block.
  static constexpr size_t kMaxBlock = 1024;

  // Return how many records wait if the reader should be told: with the first one and whenever
  // another block is full. Otherwise 0.
  size_t Add(absl::Span<const TaskRecord> records);
  size_t AddRow(const TaskRow& row);

  // Takes the records since the last call, in order.
  std::vector<RecordBlock> Take();

 private:
  // Rows of fewer tasks are expanded at once, which is cheaper than keeping them.
  static constexpr size_t kFewTasks = 16;

  // Blocks, of which only the last may have room.
  struct Filling {
    std::vector<RecordBlock> blocks;
    size_t capacity = 0;  // of the last block
    bool filled_one = false;

    void Add(absl::Span<const TaskRecord> records);
    // Makes room in the last block. Returns for how many of `count` records.
    size_t MakeRoom(size_t count);
    TaskRecord* end() { return blocks.back().records.get() + blocks.back().count; }
    void Grow(size_t count);
  };
  // A stored row. Fresh memory costs more than everything else here, so most rows are stored in
  // half the size, with tasks as distances from the previous task.
  struct KeptRow {
    // Times relative to the end of the previous mark.
    struct Mark {
      uint32_t count;
      int32_t start_ns;
      int32_t end_ns;
    };

    // An upper bound of the memory that it needs.
    static size_t MostBytes(const TaskRow& row);
    // Stores the row in this memory, which must be aligned and remain valid. Returns the unused
    // rest.
    std::byte* Keep(const TaskRow& row, std::byte* memory);
    // Restores the row in the given vectors.
    TaskRow Restore(std::vector<uint32_t>* tasks, std::vector<TaskRow::Mark>* marks) const;

    size_t blocks_before = 0;   // in `filling_`
    size_t records_before = 0;  // in the last of these blocks
    uint32_t core = 0;
    uint16_t chip = 0;
    uint32_t first_task = 0;
    int64_t first_ns = 0;
    absl::Span<const Mark> marks;
    absl::Span<const int16_t> distances;
    // Used instead if a distance or time is too large.
    absl::Span<const uint32_t> wide_tasks;
    absl::Span<const TaskRow::Mark> wide_marks;
  };
  // Memory for rows, allocated in large pieces.
  struct RowMemory {
    std::vector<std::unique_ptr<std::byte[]>> pieces;
    std::byte* next = nullptr;
    size_t left = 0;
    size_t last_bytes = 0;

    // Ensures that this many bytes are free.
    std::byte* Reserve(size_t bytes);
  };

  // Adds the records of a row.
  static void Expand(const TaskRow& row, Filling* filling);
  // Counts added records. Returns what Add returns.
  size_t Count(size_t added);

  SpinLock lock_;
  // lock_ guards all members below.
  Filling filling_;
  std::vector<KeptRow> rows_;
  RowMemory row_memory_;
  size_t waiting_ = 0;
};

}  // namespace pto::engine

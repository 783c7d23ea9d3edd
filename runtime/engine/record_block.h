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
};

// Records that are there to stay: who takes a block may keep and share it, and copies nothing.
struct RecordBlock {
  std::shared_ptr<TaskRecord[]> records;
  size_t count = 0;
};

// The records of one run from the workers that add them to whoever takes them, in blocks.
// Thread-safe.
class RecordBlocks {
 public:
  // No block has more.
  static constexpr size_t kMaxBlock = 1024;

  // Returns how many wait when that is worth telling: with the first one, and with as many more
  // as fill a block. Else 0.
  size_t Add(absl::Span<const TaskRecord> records);

  // Takes what has come since the last time, in order.
  std::vector<RecordBlock> Take();

 private:
  void MakeRoom(size_t count);

  SpinLock lock_;
  // All guarded by lock_.
  std::vector<RecordBlock> blocks_;
  size_t capacity_ = 0;  // of the last one
  size_t waiting_ = 0;
  bool filled_one_ = false;
};

}  // namespace pto

#include "runtime/engine/record_block.h"

#include <algorithm>
#include <utility>

namespace pto {
namespace {

std::shared_ptr<TaskRecord[]> CopyOf(const RecordBlock& block, size_t capacity) {
  std::shared_ptr<TaskRecord[]> copy = std::make_shared_for_overwrite<TaskRecord[]>(capacity);
  std::copy_n(block.records.get(), block.count, copy.get());
  return copy;
}

}  // namespace

void RecordBlocks::MakeRoom(size_t count) {
  if (blocks_.empty() || blocks_.back().count == kMaxBlock) {
    blocks_.emplace_back();
    capacity_ = 0;
  }
  RecordBlock& last = blocks_.back();
  if (last.count < capacity_) return;
  // A run of a few tasks needs little, and one that has filled a block will fill others.
  const size_t wanted = filled_one_ ? kMaxBlock : std::max(last.count + count, 2 * capacity_);
  capacity_ = std::min(wanted, kMaxBlock);
  last.records = CopyOf(last, capacity_);
}

size_t RecordBlocks::Add(absl::Span<const TaskRecord> records) {
  SpinLockHolder lock(lock_);
  const size_t before = waiting_;
  waiting_ += records.size();
  while (!records.empty()) {
    MakeRoom(records.size());
    RecordBlock& last = blocks_.back();
    const size_t count = std::min(records.size(), capacity_ - last.count);
    std::copy_n(records.begin(), count, last.records.get() + last.count);
    last.count += count;
    filled_one_ |= last.count == kMaxBlock;
    records.remove_prefix(count);
  }
  return before == 0 || before / kMaxBlock != waiting_ / kMaxBlock ? waiting_ : 0;
}

std::vector<RecordBlock> RecordBlocks::Take() {
  std::vector<RecordBlock> taken;
  size_t capacity = 0;
  {
    SpinLockHolder lock(lock_);
    taken.swap(blocks_);
    capacity = std::exchange(capacity_, 0);
    waiting_ = 0;
  }
  // Who keeps blocks counts the records in them, not the room that was left.
  if (!taken.empty() && taken.back().count < capacity / 2) {
    taken.back().records = CopyOf(taken.back(), taken.back().count);
  }
  return taken;
}

}  // namespace pto

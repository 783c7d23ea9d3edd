#include "runtime/engine/run/record_block.h"

#include <algorithm>
#include <utility>

namespace pto::engine {
namespace {

// Of memory for rows.
constexpr size_t kAlignment = 8;
constexpr size_t kFirstPiece = size_t{4} << 10;
constexpr size_t kLargestPiece = size_t{64} << 10;

std::shared_ptr<TaskRecord[]> CopyOf(const RecordBlock& block, size_t capacity) {
  std::shared_ptr<TaskRecord[]> copy = std::make_shared_for_overwrite<TaskRecord[]>(capacity);
  std::copy_n(block.records.get(), block.count, copy.get());
  return copy;
}

// Writes the distance of each task but the first from the previous one. Returns whether all fit.
bool PutDistances(absl::Span<const uint32_t> tasks, int16_t* distances) {
  // No value is carried between iterations, so that the compiler can vectorise the loop.
  int32_t too_far = 0;
  for (size_t i = 1; i < tasks.size(); ++i) {
    const auto distance = static_cast<int32_t>(tasks[i] - tasks[i - 1]);
    const auto kept = static_cast<int16_t>(distance);
    distances[i] = kept;
    too_far |= distance ^ kept;
  }
  return too_far == 0;
}

}  // namespace

size_t RecordBlocks::Filling::MakeRoom(size_t count) {
  if (blocks.empty() || blocks.back().count == kMaxBlock) {
    blocks.emplace_back();
    capacity = 0;
  }
  RecordBlock& last = blocks.back();
  if (last.count == capacity) {
    // A short run needs little memory; a run that has filled a block will fill more.
    const size_t wanted = filled_one ? kMaxBlock : std::max(last.count + count, 2 * capacity);
    capacity = std::min(wanted, kMaxBlock);
    last.records = CopyOf(last, capacity);
  }
  return std::min(count, capacity - last.count);
}

void RecordBlocks::Filling::Grow(size_t count) {
  blocks.back().count += count;
  filled_one |= blocks.back().count == kMaxBlock;
}

void RecordBlocks::Filling::Add(absl::Span<const TaskRecord> records) {
  while (!records.empty()) {
    const size_t count = MakeRoom(records.size());
    std::copy_n(records.begin(), count, end());
    Grow(count);
    records.remove_prefix(count);
  }
}

void RecordBlocks::Expand(const TaskRow& row, Filling* filling) {
  uint32_t next = 0;
  for (const TaskRow::Mark& mark : row.marks) {
    const int64_t count = mark.end - next;
    if (count == 0) continue;
    const int64_t each = (mark.end_ns - mark.start_ns) / count;
    // The first tasks take a nanosecond more, so that the times add up.
    int64_t longer = (mark.end_ns - mark.start_ns) % count;
    int64_t start = mark.start_ns;
    while (next < mark.end) {
      const size_t room = filling->MakeRoom(mark.end - next);
      TaskRecord* const records = filling->end();
      for (size_t i = 0; i < room; ++i) {
        TaskRecord& record = records[i];
        record.task = row.tasks[next + i];
        record.core = row.core;
        record.chip = row.chip;
        record.outcome = TaskOutcome::kDone;
        record.start_ns = start;
        start += each + (longer-- > 0 ? 1 : 0);
        record.end_ns = start;
        record.deferred_ns = 0;
      }
      filling->Grow(room);
      next += static_cast<uint32_t>(room);
    }
  }
}

size_t RecordBlocks::Count(size_t added) {
  const size_t before = waiting_;
  waiting_ += added;
  return before == 0 || before / kMaxBlock != waiting_ / kMaxBlock ? waiting_ : 0;
}

size_t RecordBlocks::Add(absl::Span<const TaskRecord> records) {
  if (records.empty()) return 0;
  SpinLockHolder lock(lock_);
  filling_.Add(records);
  return Count(records.size());
}

std::byte* RecordBlocks::RowMemory::Reserve(size_t bytes) {
  if (left < bytes) {
    last_bytes = std::max(bytes, std::clamp(2 * last_bytes, kFirstPiece, kLargestPiece));
    pieces.push_back(std::make_unique_for_overwrite<std::byte[]>(last_bytes));
    next = pieces.back().get();
    left = last_bytes;
  }
  return next;
}

size_t RecordBlocks::KeptRow::MostBytes(const TaskRow& row) {
  return row.marks.size() * sizeof(TaskRow::Mark) + row.tasks.size() * sizeof(uint32_t) +
         kAlignment;
}

std::byte* RecordBlocks::KeptRow::Keep(const TaskRow& row, std::byte* memory) {
  core = row.core;
  chip = row.chip;
  first_task = row.tasks[0];
  first_ns = row.marks[0].start_ns;
  // The marks first, for their alignment.
  auto* const small_marks = reinterpret_cast<Mark*>(memory);
  int64_t too_long = 0;
  uint32_t end = 0;
  int64_t last_ns = first_ns;
  for (size_t i = 0; i < row.marks.size(); ++i) {
    const TaskRow::Mark& mark = row.marks[i];
    const int64_t start_ns = mark.start_ns - last_ns;
    const int64_t end_ns = mark.end_ns - last_ns;
    small_marks[i] = {mark.end - end, static_cast<int32_t>(start_ns), static_cast<int32_t>(end_ns)};
    too_long |= (start_ns ^ small_marks[i].start_ns) | (end_ns ^ small_marks[i].end_ns);
    end = mark.end;
    last_ns = mark.end_ns;
  }
  if (too_long == 0) {
    marks = {small_marks, row.marks.size()};
    memory += row.marks.size() * sizeof(Mark);
  } else {
    auto* const copy = reinterpret_cast<TaskRow::Mark*>(memory);
    std::copy(row.marks.begin(), row.marks.end(), copy);
    wide_marks = {copy, row.marks.size()};
    memory += row.marks.size() * sizeof(TaskRow::Mark);
  }

  auto* const near = reinterpret_cast<int16_t*>(memory);
  near[0] = 0;
  if (PutDistances(row.tasks, near)) {
    distances = {near, row.tasks.size()};
    memory += row.tasks.size() * sizeof(int16_t);
  } else {
    auto* const copy = reinterpret_cast<uint32_t*>(memory);
    std::copy(row.tasks.begin(), row.tasks.end(), copy);
    wide_tasks = {copy, row.tasks.size()};
    memory += row.tasks.size() * sizeof(uint32_t);
  }
  return memory;
}

TaskRow RecordBlocks::KeptRow::Restore(std::vector<uint32_t>* tasks,
                                       std::vector<TaskRow::Mark>* all_marks) const {
  TaskRow row;
  row.core = core;
  row.chip = chip;
  row.tasks = wide_tasks;
  row.marks = wide_marks;
  if (wide_tasks.empty()) {
    tasks->clear();
    uint32_t task = first_task;
    for (const int16_t distance : distances) {
      task += static_cast<uint32_t>(int32_t{distance});
      tasks->push_back(task);
    }
    row.tasks = *tasks;
  }
  if (wide_marks.empty()) {
    all_marks->clear();
    uint32_t end = 0;
    int64_t last_ns = first_ns;
    for (const Mark& mark : marks) {
      end += mark.count;
      all_marks->push_back({end, last_ns + mark.start_ns, last_ns + mark.end_ns});
      last_ns += mark.end_ns;
    }
    row.marks = *all_marks;
  }
  return row;
}

size_t RecordBlocks::AddRow(const TaskRow& row) {
  if (row.tasks.size() <= kFewTasks) {
    SpinLockHolder lock(lock_);
    Expand(row, &filling_);
    return Count(row.tasks.size());
  }
  KeptRow kept;
  SpinLockHolder lock(lock_);
  std::byte* const begin = row_memory_.Reserve(KeptRow::MostBytes(row));
  const auto used = static_cast<size_t>(kept.Keep(row, begin) - begin);
  const size_t taken = (used + kAlignment - 1) / kAlignment * kAlignment;
  row_memory_.next += taken;
  row_memory_.left -= taken;
  kept.blocks_before = filling_.blocks.size();
  kept.records_before = filling_.blocks.empty() ? 0 : filling_.blocks.back().count;
  rows_.push_back(std::move(kept));
  return Count(row.tasks.size());
}

std::vector<RecordBlock> RecordBlocks::Take() {
  Filling taken;
  std::vector<KeptRow> rows;
  RowMemory row_memory;  // of these rows
  {
    SpinLockHolder lock(lock_);
    const bool filled_one = filling_.filled_one || waiting_ >= kMaxBlock;
    taken = std::exchange(filling_, Filling());
    filling_.filled_one = filled_one;
    taken.filled_one = filled_one;
    rows.swap(rows_);
    row_memory = std::exchange(row_memory_, RowMemory());
    waiting_ = 0;
  }
  if (!rows.empty()) {
    // Merges rows and records in the order in which they were added.
    Filling all;
    all.filled_one = taken.filled_one;
    size_t block = 0;
    size_t record = 0;
    const auto add_until = [&](size_t end_block, size_t end_record) {
      for (; block < end_block; ++block, record = 0) {
        const RecordBlock& from = taken.blocks[block];
        const size_t end = block + 1 == end_block ? end_record : from.count;
        all.Add({from.records.get() + record, end - record});
        if (block + 1 == end_block && end < from.count) {
          record = end;
          break;
        }
      }
    };
    std::vector<uint32_t> tasks;
    std::vector<TaskRow::Mark> marks;
    for (const KeptRow& row : rows) {
      add_until(row.blocks_before, row.records_before);
      Expand(row.Restore(&tasks, &marks), &all);
    }
    if (!taken.blocks.empty()) add_until(taken.blocks.size(), taken.blocks.back().count);
    taken = std::move(all);
  }
  // Readers account for the records in a block, not for unused capacity.
  if (!taken.blocks.empty() && taken.blocks.back().count < taken.capacity / 2) {
    RecordBlock& last = taken.blocks.back();
    last.records = CopyOf(last, last.count);
  }
  return std::move(taken.blocks);
}

}  // namespace pto::engine

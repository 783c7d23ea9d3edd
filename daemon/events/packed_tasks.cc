#include "daemon/events/packed_tasks.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace pto::daemon {
namespace {

constexpr size_t kMaxBytes32 = 5;
constexpr size_t kMaxBytes64 = 10;
// The maximum size of a task: four numbers of 32 bits and three of 64.
constexpr size_t kMaxBytes = 4 * kMaxBytes32 + 3 * kMaxBytes64;

// Writes `value_of` each record and returns the end.
template <typename ValueOf>
char* PutColumn(absl::Span<const engine::TaskRecord> records, ValueOf value_of, char* next) {
  for (const engine::TaskRecord& record : records) {
    auto value = value_of(record);
    for (; value >= 0x80; value >>= 7) *next++ = static_cast<char>(value | 0x80);
    *next++ = static_cast<char>(value);
  }
  return next;
}

// The same for numbers that are nearly always below 128.
template <typename ValueOf>
char* PutSmallColumn(absl::Span<const engine::TaskRecord> records, ValueOf value_of, char* next) {
  uint32_t all = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const uint32_t value = value_of(records[i]);
    all |= value;
    next[i] = static_cast<char>(value);
  }
  return all < 0x80 ? next + records.size() : PutColumn(records, value_of, next);
}

bool AllWentWell(absl::Span<const engine::TaskRecord> records) {
  return std::all_of(records.begin(), records.end(), [](const engine::TaskRecord& r) {
    return r.outcome == engine::TaskOutcome::kDone;
  });
}

bool AnyDeferred(absl::Span<const engine::TaskRecord> records) {
  return std::any_of(records.begin(), records.end(),
                     [](const engine::TaskRecord& r) { return r.deferred_ns != 0; });
}

}  // namespace

PackedTasks::PackedTasks(absl::Span<const engine::TaskRecord> records) {
  if (records.empty()) return;
  // Room for the worst case; only the used part is touched and kept.
  auto* const room = static_cast<char*>(std::malloc(records.size() * kMaxBytes));
  if (room == nullptr) throw std::bad_alloc();
  char* next = room;
  const auto put = [&](Column column, auto value_of) {
    next = PutColumn(records, value_of, next);
    ends_[column] = static_cast<uint32_t>(next - room);
  };
  const auto put_small = [&](Column column, auto value_of) {
    next = PutSmallColumn(records, value_of, next);
    ends_[column] = static_cast<uint32_t>(next - room);
  };
  put(kTask, [](const engine::TaskRecord& r) { return r.task; });
  if (AllWentWell(records)) {
    ends_[kOutcome] = ends_[kTask];
  } else {
    put_small(kOutcome,
              [](const engine::TaskRecord& r) { return static_cast<uint32_t>(r.outcome); });
  }
  put_small(kChip, [](const engine::TaskRecord& r) { return uint32_t{r.chip}; });
  put_small(kCore, [](const engine::TaskRecord& r) { return r.core; });
  put(kStartNs, [](const engine::TaskRecord& r) { return static_cast<uint64_t>(r.start_ns); });
  put(kDurationNs,
      [](const engine::TaskRecord& r) { return static_cast<uint64_t>(r.end_ns - r.start_ns); });
  ends_[kDeferredNs] = ends_[kDurationNs];
  if (AnyDeferred(records)) {
    put(kDeferredNs,
        [](const engine::TaskRecord& r) { return static_cast<uint64_t>(r.deferred_ns); });
  }
  void* const kept = std::realloc(room, bytes());
  data_ =
      std::shared_ptr<const char[]>(static_cast<char*>(kept != nullptr ? kept : room),
                                    [](const char* data) { std::free(const_cast<char*>(data)); });
}

absl::string_view PackedTasks::Get(Column column, uint64_t skip) const {
  const uint32_t begin = column == 0 ? 0 : ends_[column - 1];
  absl::string_view numbers(data_.get() + begin, ends_[column] - begin);
  size_t at = 0;
  for (; skip > 0 && at < numbers.size(); ++at) {
    // The last byte of a number has no high bit.
    if ((static_cast<uint8_t>(numbers[at]) & 0x80) == 0) --skip;
  }
  numbers.remove_prefix(at);
  return numbers;
}

}  // namespace pto::daemon

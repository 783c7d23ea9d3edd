#include "daemon/services/task_columns.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "google/protobuf/unknown_field_set.h"

namespace pto {
namespace {

// Appends `value_of` each record as a packed field. `kMaxBytes` is the longest that one can be.
template <size_t kMaxBytes, typename ValueOf>
void AddColumn(absl::Span<const TaskRecord> records, int field, ValueOf value_of,
               google::protobuf::UnknownFieldSet* fields) {
  std::string* const column = fields->AddLengthDelimited(field);
  column->resize(records.size() * kMaxBytes);
  char* next = column->data();
  for (const TaskRecord& record : records) {
    auto value = value_of(record);
    static_assert(sizeof value * 8 <= kMaxBytes * 7);
    for (; value >= 0x80; value >>= 7) *next++ = static_cast<char>(value | 0x80);
    *next++ = static_cast<char>(value);
  }
  column->resize(static_cast<size_t>(next - column->data()));
}

}  // namespace

void AddTaskColumns(absl::Span<const TaskRecord> records, v1::TaskEvents* tasks) {
  using v1::TaskEvents;
  google::protobuf::UnknownFieldSet* const fields =
      tasks->GetReflection()->MutableUnknownFields(tasks);
  AddColumn<5>(
      records, TaskEvents::kTaskFieldNumber, [](const TaskRecord& r) { return r.task; }, fields);
  // No outcomes mean that all went well.
  if (!std::all_of(records.begin(), records.end(),
                   [](const TaskRecord& r) { return r.outcome == TaskOutcome::kDone; })) {
    AddColumn<5>(
        records, TaskEvents::kOutcomeFieldNumber,
        [](const TaskRecord& r) { return static_cast<uint32_t>(r.outcome); }, fields);
  }
  AddColumn<5>(
      records, TaskEvents::kChipFieldNumber, [](const TaskRecord& r) { return uint32_t{r.chip}; },
      fields);
  AddColumn<5>(
      records, TaskEvents::kCoreFieldNumber, [](const TaskRecord& r) { return r.core; }, fields);
  AddColumn<10>(
      records, TaskEvents::kStartNsFieldNumber,
      [](const TaskRecord& r) { return static_cast<uint64_t>(r.start_ns); }, fields);
  AddColumn<10>(
      records, TaskEvents::kDurationNsFieldNumber,
      [](const TaskRecord& r) { return static_cast<uint64_t>(r.end_ns - r.start_ns); }, fields);
}

}  // namespace pto

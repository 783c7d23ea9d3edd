#include "daemon/wire/task_columns.h"

#include "google/protobuf/unknown_field_set.h"

namespace pto::daemon {

void AddTaskColumns(const PackedTasks& tasks, uint64_t skip, v1::TaskEvents* events) {
  using v1::TaskEvents;
  google::protobuf::UnknownFieldSet* const fields =
      events->GetReflection()->MutableUnknownFields(events);
  const auto add = [&](PackedTasks::Column column, int field) {
    const absl::string_view numbers = tasks.Get(column, skip);
    if (numbers.empty()) return;
    fields->AddLengthDelimited(field)->assign(numbers.data(), numbers.size());
  };
  add(PackedTasks::kTask, TaskEvents::kTaskFieldNumber);
  add(PackedTasks::kOutcome, TaskEvents::kOutcomeFieldNumber);
  add(PackedTasks::kChip, TaskEvents::kChipFieldNumber);
  add(PackedTasks::kCore, TaskEvents::kCoreFieldNumber);
  add(PackedTasks::kStartNs, TaskEvents::kStartNsFieldNumber);
  add(PackedTasks::kDurationNs, TaskEvents::kDurationNsFieldNumber);
  add(PackedTasks::kDeferredNs, TaskEvents::kDeferredNsFieldNumber);
}

}  // namespace pto::daemon

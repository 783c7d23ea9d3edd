#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/engine/run/record_block.h"

namespace pto::daemon {

// Ends of tasks as stored and as sent: in columns, each number as a varint. They are packed once
// for all watchers. Fresh memory costs more than packing, so storing a third of the bytes is also
// faster.
//
// Immutable. Copies share the bytes.
class PackedTasks {
 public:
  enum Column : uint8_t { kTask, kOutcome, kChip, kCore, kStartNs, kDurationNs, kDeferredNs };
  static constexpr size_t kColumns = kDeferredNs + 1;

  PackedTasks() = default;
  explicit PackedTasks(absl::Span<const engine::TaskRecord> records);

  // The values of all tasks but the first `skip`. An empty column of outcomes means that all
  // succeeded; an empty column of deferred times that there were none.
  absl::string_view Get(Column column, uint64_t skip) const;

  size_t bytes() const { return ends_[kColumns - 1]; }

 private:
  std::shared_ptr<const char[]> data_;
  std::array<uint32_t, kColumns> ends_ = {};  // of the columns, which follow each other
};

}  // namespace pto::daemon

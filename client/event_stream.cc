#include "client/event_stream.h"

#include <utility>

#include "client/internal/event_reader.h"

namespace pto {

EventStream::EventStream(std::unique_ptr<internal::EventReader> reader)
    : reader_(std::move(reader)) {}
EventStream::~EventStream() = default;
EventStream::EventStream(EventStream&&) noexcept = default;
EventStream& EventStream::operator=(EventStream&&) noexcept = default;

absl::StatusOr<absl::optional<v1::EventBatch>> EventStream::Next(absl::Duration timeout) {
  return reader_->Next(reader_->DeadlineOf(timeout));
}

uint64_t EventStream::through_sequence() const { return reader_->through_sequence(); }

}  // namespace pto

#pragma once

#include "absl/types/span.h"
#include "pto/v1/event.pb.h"
#include "runtime/engine/record_block.h"

namespace pto {

// Adds the columns of `records` to a message that is sent and not looked at.
//
// The columns are written here in their encoding, and put into the message as fields that it does
// not know: the bytes on the wire are the same. Left to protobuf, every number is copied into a
// column, then measured, then written, and the measuring alone takes longer than all of this.
void AddTaskColumns(absl::Span<const TaskRecord> records, v1::TaskEvents* tasks);

}  // namespace pto

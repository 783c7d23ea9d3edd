#pragma once

#include <cstdint>

#include "daemon/events/packed_tasks.h"
#include "pto/v1/event.pb.h"

namespace pto {

// Adds the columns of all `tasks` but the first `skip` to a message that is sent and not looked at.
//
// They are put into it as fields that it does not know, since they are in their encoding already:
// the bytes on the wire are the same. Left to protobuf, every number is copied into a column, then
// measured, then written, and the measuring alone takes longer than all of this.
void AddTaskColumns(const PackedTasks& tasks, uint64_t skip, v1::TaskEvents* events);

}  // namespace pto

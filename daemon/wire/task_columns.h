#pragma once

#include <cstdint>

#include "daemon/events/packed_tasks.h"
#include "pto/v1/event.pb.h"

namespace pto::daemon {

// Adds the columns of all `tasks` except the first `skip` to a message that will only be
// serialised.
//
// The columns are already encoded, so they are added as unknown fields: the bytes on the wire are
// the same. Protobuf would copy every number into a column, measure it, and write it; the measuring
// alone takes longer than all of this.
void AddTaskColumns(const PackedTasks& tasks, uint64_t skip, v1::TaskEvents* events);

}  // namespace pto::daemon

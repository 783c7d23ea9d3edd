#pragma once

#include "absl/status/status.h"
#include "tests/bench/report.h"
#include "tests/bench/servers.h"

namespace pto::bench {

// Task events per second of one large run of independent tasks: for a watcher that was connected
// before the run, and for one that connects after the run has ended. Both are compared with a bare
// stream that sends the same batches from memory.
absl::Status MeasureEventRate(Servers& servers, const Effort& effort, Report& report);

}  // namespace pto::bench

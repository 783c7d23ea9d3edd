#pragma once

#include "absl/status/status.h"
#include "tests/bench/report.h"
#include "tests/bench/servers.h"

namespace pto::bench {

// Task events per second of one large run of independent tasks: to a watcher that was there
// before the run, and to one that comes when the run has ended. Both beside a bare stream that
// sends the same batches from memory.
absl::Status MeasureEventRate(Servers& servers, const Effort& effort, Report& report);

}  // namespace pto::bench

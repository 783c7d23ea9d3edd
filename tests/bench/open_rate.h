#pragma once

#include "absl/status/status.h"
#include "tests/bench/report.h"
#include "tests/bench/servers.h"

namespace pto::bench {

// Ten million tasks through one open run, and the daemon's memory meanwhile.
absl::Status MeasureOpenRate(Servers& servers, const Effort& effort, Report& report);

}  // namespace pto::bench

#pragma once

#include "tests/bench/report.h"

namespace pto::bench {

// The lines of host_bench that need a whole daemon: a run of one task through the API, a store that
// nobody tells the daemon of, and what an idle kernel host uses.
void MeasureHostsOfDaemon(Report& report);

}  // namespace pto::bench

#pragma once

#include "absl/status/status.h"
#include "tests/bench/report.h"
#include "tests/bench/servers.h"

namespace pto::bench {

// Runs per second with 64 in flight, as unary calls and on one LaunchStream.
absl::Status MeasureRunRate(Servers& servers, const Effort& effort, Report& report);

}  // namespace pto::bench

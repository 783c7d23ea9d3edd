#pragma once

#include "absl/status/status.h"
#include "tests/bench/report.h"
#include "tests/bench/servers.h"

namespace pto::bench {

// From sending a launch of a one-task graph to having its end, one at a time: as a unary call
// beside a bare echo, on a LaunchStream beside a bare ping-pong, and both through the client
// library.
absl::Status MeasureLatency(Servers& servers, const Effort& effort, Report& report);

}  // namespace pto::bench

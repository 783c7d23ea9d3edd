#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tests/bench/report.h"
#include "tests/bench/servers.h"

namespace pto::bench {

// The time from sending a launch of a one-task graph to receiving its end, one at a time: as a
// unary call compared with a bare echo, on a LaunchStream compared with a bare ping-pong, and both
// through the client library. `suffix` ends the names of the lines; only `judged` lines have
// targets. `most`: how much longer than an echo a unary call may take.
absl::Status MeasureLatency(Servers& servers, const Effort& effort, absl::string_view suffix,
                            bool judged, Report& report, double most = 1.25);

}  // namespace pto::bench

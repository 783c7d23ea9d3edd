#pragma once

#include "absl/status/status.h"
#include "tests/bench/report.h"
#include "tests/bench/servers.h"

namespace pto::bench {

// Write, run and read of a large buffer through the memory broker, compared with gRPC and with
// memcpy.
absl::Status MeasureBrokerRate(Servers& servers, const Effort& effort, Report& report);

}  // namespace pto::bench

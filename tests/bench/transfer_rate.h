#pragma once

#include "absl/status/status.h"
#include "tests/bench/report.h"
#include "tests/bench/servers.h"

namespace pto::bench {

// MiB per second to and from a buffer, compared with bare streams of the same chunks whose server
// copies them too, and with memcpy.
absl::Status MeasureTransferRate(Servers& servers, const Effort& effort, Report& report);

}  // namespace pto::bench

#pragma once

#include <string>

#include "absl/status/status.h"
#include "tests/bench/report.h"
#include "tests/bench/servers.h"

namespace pto::bench {

// A packed graph of a million tasks, sent, run and reported task by task, compared with decoding
// and running it without a daemon. `alone` is the program graph_alone.
absl::Status MeasureLargeGraph(Servers& servers, const std::string& alone, const Effort& effort,
                               Report& report);

}  // namespace pto::bench

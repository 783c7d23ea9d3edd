#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/trace/run_trace.h"

namespace pto::trace {

struct CollectOptions {
  // Maximum number of tasks of the graph whose names and edges are fetched.
  uint64_t max_tasks = 2'000'000;
  // For all calls together.
  absl::Duration timeout = absl::Minutes(1);
};

// Fetches what the daemon knows about a run, given by full name: the events of its session from the
// first on, its tasks if they are still available, chips and kernels. For a run that has not ended:
// what has happened so far, and the state of the tasks that have not ended.
absl::StatusOr<RunTrace> CollectTrace(Client& client, const std::string& run,
                                      const CollectOptions& options = {});

}  // namespace pto::trace

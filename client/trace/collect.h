#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/trace/run_trace.h"

namespace pto::trace {

struct CollectOptions {
  // Names and edges of at most so many tasks of the graph.
  uint64_t max_tasks = 2'000'000;
  // For everything together.
  absl::Duration timeout = absl::Minutes(1);
};

// Asks the daemon for what it knows of a run, by its full name: the events of its session from the
// first on, its tasks if they are still known, chips and kernels. Of a run that has not ended: what
// has happened so far, and what the tasks do that have not ended.
absl::StatusOr<RunTrace> CollectTrace(Client& client, const std::string& run,
                                      const CollectOptions& options = {});

}  // namespace pto::trace

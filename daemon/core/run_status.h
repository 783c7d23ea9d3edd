#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/engine/run.h"

namespace pto {

using Labels = std::map<std::string, std::string>;

// What never changes about a run; shared by all that speaks of it.
struct RunIdentity {
  std::string name;   // sessions/{s}/runs/{r}
  std::string id;     // {r}
  std::string graph;  // sessions/{s}/graphs/{g}; empty for a submitted graph
  Labels labels;
  uint64_t tasks_total = 0;
  absl::Time create_time;
};

// How a run was at one moment.
struct RunStatus {
  std::shared_ptr<const RunIdentity> identity;
  RunState state = RunState::kQueued;
  uint64_t as_of_sequence = 0;
  Run::Counts counts;
  std::vector<absl::Status> errors;  // the first one is the run's
  int64_t queue_ns = 0;              // 0 while it has not started
  int64_t run_ns = 0;                // 0 while it has not ended
  int64_t total_ns = 0;              // from acceptance to the end; 0 while it has not ended
};

}  // namespace pto

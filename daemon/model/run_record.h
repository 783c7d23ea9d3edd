#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/engine/run/run.h"

namespace pto::daemon {

using Labels = std::map<std::string, std::string>;

// The description of a run. Its entry and all its events share one, so that a launch writes little
// memory and events are small.
struct RunRecord {
  std::shared_ptr<const std::string> session;  // sessions/{s}
  std::string id;                              // {r}
  // The principal that the session belongs to; nullptr: not known.
  std::shared_ptr<const std::string> owner;
  std::shared_ptr<const std::string> graph;  // its name; nullptr for a submitted graph
  // Whether its buffers overlap, so that tasks have more dependencies than the graph.
  bool aliased = false;
  Labels labels;
  // Whether tasks can be added while it runs.
  bool open = false;
  uint64_t tasks_total = 0;  // of an open run: as `counts`
  absl::Time create_time;

  // Written before the start event, and only read after it.
  int64_t queue_ns = 0;

  // Written before the end event, and only read after it.
  engine::Run::Counts counts;
  std::vector<absl::Status> errors;  // the first one is the run's
  int64_t run_ns = 0;
  int64_t total_ns = 0;  // from acceptance to the end

  std::string name() const { return absl::StrCat(*session, "/runs/", id); }
};

// The state of a run at one moment.
struct RunStatus {
  std::shared_ptr<const RunRecord> run;
  engine::RunState state = engine::RunState::kQueued;
  uint64_t as_of_sequence = 0;
  bool open = false;         // more tasks may come
  uint64_t tasks_total = 0;  // of an open run: so far, or 0 when that is not known
  engine::Run::Counts counts;
  std::vector<absl::Status> errors;
  int64_t queue_ns = 0;  // 0 while it has not started
  int64_t run_ns = 0;    // 0 while it has not ended
  int64_t total_ns = 0;  // 0 while it has not ended
};

// The state of the run when event `sequence` reported `state`.
inline RunStatus StatusAt(std::shared_ptr<const RunRecord> run, engine::RunState state,
                          uint64_t sequence) {
  RunStatus status;
  status.state = state;
  status.as_of_sequence = sequence;
  status.open = run->open && !engine::IsFinal(state);
  if (!status.open) status.tasks_total = run->tasks_total;
  if (state != engine::RunState::kQueued) status.queue_ns = run->queue_ns;
  if (engine::IsFinal(state)) {
    status.counts = run->counts;
    status.errors = run->errors;
    status.run_ns = run->run_ns;
    status.total_ns = run->total_ns;
  }
  status.run = std::move(run);
  return status;
}

}  // namespace pto::daemon

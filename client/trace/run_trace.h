#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "pto/v1/event.pb.h"
#include "pto/v1/kernel.pb.h"
#include "pto/v1/node.pb.h"
#include "pto/v1/run.pb.h"

namespace pto::trace {

// One task of a run as executed. Times are in ns after the run was accepted.
struct Task {
  uint32_t index = 0;
  std::string name;    // from the graph, otherwise `task 7`
  std::string kernel;  // empty if unknown
  v1::TaskEvents::Outcome outcome = v1::TaskEvents::DONE;
  // Its chips; the one named in the events comes first.
  std::vector<uint32_t> chips;
  uint32_t core = 0;     // of its last block
  uint32_t blocks = 1;   // on each chip
  bool control = false;  // needs no core
  // When the last of its predecessors had ended; 0 if it has none, and -1 if the graph is unknown.
  int64_t ready_ns = -1;
  int64_t submitted_ns = 0;  // not zero only in open runs
  int64_t start_ns = 0;
  int64_t returned_ns = 0;  // end of its last kernel; from then to the end it was deferred
  int64_t end_ns = 0;

  // What a task that had not ended was doing when the trace was made. It is drawn from the
  // beginning of that, as far as it is known, to the time of the trace: these are its start and
  // end.
  enum class Phase : uint8_t { kEnded, kRunning, kDeferred, kReady, kWaiting };
  Phase phase = Phase::kEnded;
  std::string waits_for;    // as text; empty if it has ended
  uint64_t stands_for = 1;  // number of tasks that wait for the same

  bool ended() const { return phase == Phase::kEnded; }
  // Whether there is something to draw.
  bool shown() const {
    return !ended() || outcome == v1::TaskEvents::DONE || outcome == v1::TaskEvents::FAILED;
  }
};

// `running`, `deferred`, `ready` or `waiting`.
absl::string_view PhaseName(Task::Phase phase);

// A chip's memory in use from a point in time on.
struct MemoryUse {
  uint32_t chip = 0;
  int64_t time_ns = 0;
  uint64_t bytes = 0;
};

// What is known about a run, in the form that pictures need.
struct RunTrace {
  v1::Run run;
  std::vector<v1::Chip> chips;  // all chips of the node, by index
  std::vector<Task> tasks;      // ended ones, and for an active run also others; by start
  // The edges, as indices in `tasks`. Only between tasks that are in it.
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  std::vector<MemoryUse> memory;  // for each chip in order of time; empty if unknown
  int64_t end_ns = 0;             // end of the run, or time of the trace
  // What is missing or was guessed, for the viewer.
  std::vector<std::string> notes;
};

// The sources of a trace: the daemon's answers.
struct Sources {
  v1::Run run;
  std::vector<v1::Event> events;  // of the run, from the first on
  std::vector<v1::Chip> chips;
  std::vector<v1::Kernel> kernels;
  // Its tasks in full columns; empty if they are no longer available.
  v1::RunGraph graph;
  // For a run that has not ended; otherwise empty.
  v1::ExplainRunResponse explained;
};

RunTrace MakeTrace(const Sources& sources);

}  // namespace pto::trace

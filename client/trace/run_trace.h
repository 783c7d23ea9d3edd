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

// One task of a run as it happened. Times are in ns after the run was accepted.
struct Task {
  uint32_t index = 0;
  std::string name;    // the graph's, else `task 7`
  std::string kernel;  // empty when it is not known
  v1::TaskEvents::Outcome outcome = v1::TaskEvents::DONE;
  // Those it was on, the one that the events name first.
  std::vector<uint32_t> chips;
  uint32_t core = 0;     // of its last block
  uint32_t blocks = 1;   // on each chip
  bool control = false;  // needs no core
  // When the last of those it waits for had ended; 0 for one that waits for none, and -1 when the
  // graph is not known.
  int64_t ready_ns = -1;
  int64_t submitted_ns = 0;  // not zero only in open runs
  int64_t start_ns = 0;
  int64_t returned_ns = 0;  // its last kernel; from then to the end it was deferred
  int64_t end_ns = 0;

  // What a task that had not ended was doing when the trace was made. It is drawn from when that
  // began, as far as it is known, to the making of the trace: its start and end are those.
  enum class Phase : uint8_t { kEnded, kRunning, kDeferred, kReady, kWaiting };
  Phase phase = Phase::kEnded;
  std::string waits_for;    // in words; empty when it has ended
  uint64_t stands_for = 1;  // so many tasks that wait for the same

  bool ended() const { return phase == Phase::kEnded; }
  // Whether there is something to draw.
  bool shown() const {
    return !ended() || outcome == v1::TaskEvents::DONE || outcome == v1::TaskEvents::FAILED;
  }
};

// `running`, `deferred`, `ready` or `waiting`.
absl::string_view PhaseName(Task::Phase phase);

// How much of a chip's memory was in use from a time on.
struct MemoryUse {
  uint32_t chip = 0;
  int64_t time_ns = 0;
  uint64_t bytes = 0;
};

// What is known of a run, as the pictures of it need it.
struct RunTrace {
  v1::Run run;
  std::vector<v1::Chip> chips;  // all of the node, by index
  std::vector<Task> tasks;      // that have ended, and of a run that has not also others; by start
  // Which task waits for which, as places in `tasks`. Only of tasks that are in it.
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  std::vector<MemoryUse> memory;  // for each chip in order of time; empty when it is not known
  int64_t end_ns = 0;             // of the run, or when the trace was made
  // What is missing or was guessed, for whoever looks at the picture.
  std::vector<std::string> notes;
};

// Where a trace comes from: what the daemon answers.
struct Sources {
  v1::Run run;
  std::vector<v1::Event> events;  // of the run, from the first on
  std::vector<v1::Chip> chips;
  std::vector<v1::Kernel> kernels;
  // Its tasks in full columns; none when they are no longer known.
  v1::RunGraph graph;
  // Of a run that has not ended; else empty.
  v1::ExplainRunResponse explained;
};

RunTrace MakeTrace(const Sources& sources);

}  // namespace pto::trace

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
  int64_t start_ns = 0;
  int64_t returned_ns = 0;  // its last kernel; from then to the end it was deferred
  int64_t end_ns = 0;

  bool ran() const { return outcome == v1::TaskEvents::DONE || outcome == v1::TaskEvents::FAILED; }
};

// What is known of a run, as the pictures of it need it.
struct RunTrace {
  v1::Run run;
  std::vector<v1::Chip> chips;  // all of the node, by index
  std::vector<Task> tasks;      // that have ended, by start
  // Which task waits for which, as places in `tasks`. Only of tasks that are in it.
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  // What is missing or was guessed, for whoever looks at the picture.
  std::vector<std::string> notes;
};

// Where a trace comes from: what the daemon answers.
struct Sources {
  v1::Run run;
  std::vector<v1::Event> events;  // of the run, from the first on
  std::vector<v1::Chip> chips;
  std::vector<v1::Kernel> kernels;
  // Its graph with its structure in full columns; without one when it is not registered.
  v1::Graph graph;
};

RunTrace MakeTrace(const Sources& sources);

}  // namespace pto::trace

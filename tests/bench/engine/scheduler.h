#pragma once

#include "absl/status/statusor.h"
#include "tests/bench/engine/task_graph.h"

namespace pto::bench {

// When a graph was built and run. Whoever runs tasks while others are still being made says so in
// its header: the sum counts.
struct Phases {
  double build_seconds = 0;
  double run_seconds = 0;
};

// Something that builds and runs graphs of tasks that do nothing: ours, or what it is compared
// with. What it needs once, such as threads, it has before the first graph. One graph at a time,
// from one thread.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Builds the graph from the start and runs all of it. Keeps what it made.
  virtual absl::StatusOr<Phases> Execute(const TaskGraph& graph) = 0;
  // Frees what was made for the graph. This is not measured.
  virtual void Clear() = 0;
};

// What a task does: nothing that a compiler may leave out.
inline void DoNothing() { asm volatile(""); }

}  // namespace pto::bench

#pragma once

#include "absl/status/statusor.h"
#include "tests/bench/engine/task_graph.h"

namespace pto::bench {

// The times to build and to run a graph. A scheduler that runs tasks while others are still created
// says so in its header: then only the sum counts.
struct Phases {
  double build_seconds = 0;
  double run_seconds = 0;
};

// Builds and runs graphs of tasks that do nothing: our engine or a contender. One-time resources,
// such as threads, exist before the first graph. One graph at a time, from one thread.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Builds the graph from scratch and runs all of it. Keeps the graph.
  virtual absl::StatusOr<Phases> Execute(const TaskGraph& graph) = 0;
  // Frees the graph. Not measured.
  virtual void Clear() = 0;
};

// The body of a task: nothing, but not removable by the compiler.
inline void DoNothing() { asm volatile(""); }

}  // namespace pto::bench

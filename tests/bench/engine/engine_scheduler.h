#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tests/bench/engine/scheduler.h"

// The only interface of the benchmark to //runtime.

namespace pto::bench {

struct EngineOptions {
  // Threads that run tasks. With 1, the caller is the thread; otherwise the caller sleeps
  // meanwhile.
  uint32_t threads = 1;
  // Whether dependencies are found: each task then writes its own tensor and reads those of its
  // predecessors. Otherwise tasks have no tensors, and the edges are named.
  bool find_dependencies = false;
  // Whether the end of every task is recorded.
  bool record = false;
};

// Our engine: GraphBuilder and GraphImage are the build phase; Engine::Prepare, Start and the wait
// for the end are the run phase.
std::unique_ptr<Scheduler> NewEngineScheduler(const EngineOptions& options);

// A graph with found dependencies that is compiled once and launched repeatedly.
class RegisteredGraph {
 public:
  virtual ~RegisteredGraph() = default;
  virtual double compile_seconds() const = 0;
  // Launches it with another buffer; returns the time until its first tasks can run. The execution
  // itself does not count.
  virtual absl::StatusOr<double> Relaunch() = 0;
};
absl::StatusOr<std::unique_ptr<RegisteredGraph>> RegisterGraph(const TaskGraph& graph);

}  // namespace pto::bench

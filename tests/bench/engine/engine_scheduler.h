#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tests/bench/engine/scheduler.h"

// All that the benchmark uses of //runtime is behind this header.

namespace pto::bench {

struct EngineOptions {
  // Threads that run tasks. With 1 it is the caller; else the caller sleeps meanwhile.
  uint32_t threads = 1;
  // Whether the edges are found: each task then writes a tensor of its own and reads those of the
  // tasks that it comes after. Else tasks have no tensors, and the edges are named.
  bool find_dependencies = false;
  // Whether the end of every task is recorded.
  bool record = false;
};

// Our own: GraphBuilder and GraphImage are the build phase; Engine::Prepare, Start and the wait for
// the end are the run phase.
std::unique_ptr<Scheduler> NewEngineScheduler(const EngineOptions& options);

// A graph that is compiled once, with edges that are found, and launched again and again.
class RegisteredGraph {
 public:
  virtual ~RegisteredGraph() = default;
  virtual double compile_seconds() const = 0;
  // Launches it with another buffer; returns the time until its first tasks can run. Then runs it,
  // which does not count.
  virtual absl::StatusOr<double> Relaunch() = 0;
};
absl::StatusOr<std::unique_ptr<RegisteredGraph>> RegisterGraph(const TaskGraph& graph);

}  // namespace pto::bench

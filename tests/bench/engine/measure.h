#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "tests/bench/engine/scheduler.h"

namespace pto::bench {

// The cost of one task of a graph. Each time is the best of all rounds.
struct Cost {
  double build_ns = 0;
  double run_ns = 0;
  double total_ns = 0;
  // Memory that is held for the graph after its run, and the peak. Medians.
  double bytes = 0;
  absl::optional<double> peak_bytes = absl::nullopt;
};

// The participants of a comparison.
enum class Contender {
  kNamed,     // our engine, named edges
  kFound,     // our engine, found edges
  kRecorded,  // kNamed, with a record of every task
  kBare,
  kOneTbb,
  kOpenMp,
  kStarPu
};
using Costs = std::map<Contender, Cost>;

// Empties the caches.
class ColdStart {
 public:
  ColdStart();
  // Also returns free memory to the system, so that no round benefits from another one. Then makes
  // the system have as much free memory as a graph of this size needs: a virtual machine returns
  // unused memory to its host after some seconds, and getting it back costs more than a microsecond
  // per page, which the first contender would pay.
  void operator()(size_t tasks);

 private:
  std::vector<char> other_;
};

// A contender that builds and runs the graph.
struct Entry {
  Contender contender;
  Scheduler* scheduler;
  int rounds;
};

// Builds and runs the graph with each contender in turn, round by round, from a cold start.
absl::StatusOr<Costs> Measure(const TaskGraph& graph, const std::vector<Entry>& entries,
                              ColdStart& cold_start);

}  // namespace pto::bench

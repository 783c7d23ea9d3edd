#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "tests/bench/engine/scheduler.h"

namespace pto::bench {

// What one task of a graph costs. Times are the best of all rounds, each by itself.
struct Cost {
  double build_ns = 0;
  double run_ns = 0;
  double total_ns = 0;
  // Memory that is held for the graph when it has run, and the most at any time. Medians.
  double bytes = 0;
  absl::optional<double> peak_bytes = absl::nullopt;
};

// What takes part in a comparison.
enum class Contender {
  kNamed,     // ours, edges are named
  kFound,     // ours, edges are found
  kRecorded,  // kNamed, with a record of every task
  kBare,
  kOneTbb,
  kOpenMp,
  kStarPu
};
using Costs = std::map<Contender, Cost>;

// Empties the caches: of what was there before, nothing is left in them.
class ColdStart {
 public:
  ColdStart();
  // Gives free memory back to the system too, so that no round lives on what another one left.
  // Then sees to it that the system has as much as a graph of so many tasks will want: a virtual
  // machine returns what was free for some seconds to its host, and gets it back page by page at
  // more than a microsecond each, which whoever comes first would pay.
  void operator()(size_t tasks);

 private:
  std::vector<char> other_;
};

// One of those that build and run the same graph.
struct Entry {
  Contender contender;
  Scheduler* scheduler;
  int rounds;
};

// Builds and runs the graph with each in turn, round by round, each from a cold start.
absl::StatusOr<Costs> Measure(const TaskGraph& graph, const std::vector<Entry>& entries,
                              ColdStart& cold_start);

}  // namespace pto::bench

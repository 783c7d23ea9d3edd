#pragma once

#include <cstdint>
#include <string>

#include "tests/bench/engine/measure.h"
#include "tests/bench/engine/task_graph.h"
#include "tests/bench/report.h"

namespace pto::bench {

// Which graph was measured, and on how many threads. Sizes are powers of ten.
struct GraphCase {
  Shape shape = Shape::kChain;
  uint32_t tasks = 100'000;
  int threads = 1;

  // For example `chain_1e5_2t`.
  std::string name() const;
};

// Adds the lines of one case, with their targets. Contenders that were not measured get none.
void AddCaseLines(const GraphCase& measured, const Costs& costs, Report& report);

// Adds the cost of records, if both are in `costs`.
void AddRecordedLines(const GraphCase& measured, const Costs& costs, Report& report);

// Adds the growth of a task's cost with the size of the graph.
void AddGrowthLines(const GraphCase& small, const Costs& small_costs, const GraphCase& large,
                    const Costs& large_costs, Report& report);

void AddRelaunchLine(const GraphCase& measured, double relaunch_seconds, double compile_seconds,
                     Report& report);

}  // namespace pto::bench

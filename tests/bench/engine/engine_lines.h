#pragma once

#include <cstdint>
#include <string>

#include "tests/bench/engine/measure.h"
#include "tests/bench/engine/task_graph.h"
#include "tests/bench/report.h"

namespace pto::bench {

// Which graph was measured, and on how many threads. Sizes are powers of ten.
struct Case {
  Shape shape = Shape::kChain;
  uint32_t tasks = 100'000;
  int threads = 1;

  // Such as `chain_1e5_2t`.
  std::string name() const;
};

// The lines of one case, with their targets. What was not measured gives none.
void AddCaseLines(const Case& measured, const Costs& costs, Report& report);

// What records add, when both are in `costs`.
void AddRecordedLines(const Case& measured, const Costs& costs, Report& report);

// How the cost of a task grows with the graph.
void AddGrowthLines(const Case& small, const Costs& small_costs, const Case& large,
                    const Costs& large_costs, Report& report);

void AddRelaunchLine(const Case& measured, double relaunch_seconds, double compile_seconds,
                     Report& report);

}  // namespace pto::bench

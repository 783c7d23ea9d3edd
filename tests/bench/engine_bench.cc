// engine_bench: the cost of a task in our engine, compared with other task libraries on the same
// graphs. See README.md.

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/engine/engine_lines.h"
#include "tests/bench/engine/engine_scheduler.h"
#include "tests/bench/engine/field.h"
#include "tests/bench/engine/measure.h"
#include "tests/bench/engine/selection.h"
#include "tests/bench/engine/task_graph.h"
#include "tests/bench/report.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr unsigned kLongestRunSeconds = 1800;

absl::Status MeasureCases(const Selection& selection, int threads, const EngineEffort& effort,
                          ColdStart& cold_start, Report& report) {
  PTO_ASSIGN_OR_RETURN(const std::unique_ptr<Field> field,
                       Field::Create(selection, threads, effort));
  if (field->entries(false).empty()) return absl::OkStatus();
  for (const Shape shape : kShapes) {
    if (!selection.wants(shape)) continue;
    const GraphCase small{shape, effort.small_tasks, threads};
    PTO_ASSIGN_OR_RETURN(const Costs small_costs, Measure(TaskGraph::Make(shape, small.tasks),
                                                          field->entries(false), cold_start));
    AddCaseLines(small, small_costs, report);
    PTO_ASSIGN_OR_RETURN(const Costs pair, Measure(TaskGraph::Make(shape, small.tasks),
                                                   field->recorded_entries(), cold_start));
    AddRecordedLines(small, pair, report);
    if (!selection.all_cases()) continue;
    const GraphCase large{shape, effort.large_tasks, threads};
    PTO_ASSIGN_OR_RETURN(const Costs large_costs, Measure(TaskGraph::Make(shape, large.tasks),
                                                          field->entries(true), cold_start));
    AddCaseLines(large, large_costs, report);
    AddGrowthLines(small, small_costs, large, large_costs, report);
  }
  return absl::OkStatus();
}

absl::Status MeasureRelaunches(const Selection& selection, const EngineEffort& effort,
                               ColdStart& cold_start, Report& report) {
  for (const Shape shape : kShapes) {
    if (!selection.wants(shape)) continue;
    const GraphCase measured{shape, effort.small_tasks, 1};
    const TaskGraph graph = TaskGraph::Make(shape, measured.tasks);
    Rounds compile;
    std::unique_ptr<RegisteredGraph> registered;
    for (int i = 0; i < effort.rounds; ++i) {
      registered.reset();
      cold_start(graph.size());
      PTO_ASSIGN_OR_RETURN(registered, RegisterGraph(graph));
      compile.Add(registered->compile_seconds());
    }
    Rounds relaunch;
    for (int i = 0; i < effort.relaunches; ++i) {
      cold_start(graph.size());
      PTO_ASSIGN_OR_RETURN(const double seconds, registered->Relaunch());
      relaunch.Add(seconds);
    }
    AddRelaunchLine(measured, relaunch.lowest(), compile.lowest(), report);
  }
  return absl::OkStatus();
}

struct Flags {
  bool json = false;
  bool quick = false;
  std::string only;
  int rounds = 0;
};

absl::Status MeasureAll(const Flags& flags, const Selection& selection, Report& report) {
  EngineEffort effort = flags.quick ? EngineEffort::Quick() : EngineEffort();
  if (flags.rounds > 0) {
    effort.rounds = effort.starpu_rounds = effort.recorded_rounds = flags.rounds;
  }
  ColdStart cold_start;
  for (const int threads : {1, 2}) {
    if (threads != kPeerThreads && !selection.all_cases()) continue;
    PTO_RETURN_IF_ERROR(MeasureCases(selection, threads, effort, cold_start, report));
  }
  if (selection.any_of({"relaunch"})) {
    PTO_RETURN_IF_ERROR(MeasureRelaunches(selection, effort, cold_start, report));
  }
  return absl::OkStatus();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "engine_bench: %s\n", status.ToString().c_str());
  return kExitFailed;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Measures our engine beside other task libraries. Exit code 1: a target was missed.",
               "engine_bench");
  app.add_flag("--json", flags.json, "one JSON object per line");
  app.add_flag("--quick", flags.quick,
               "a few seconds, to see that everything works; targets do not count");
  app.add_option("--only", flags.only,
                 "one peer, of one shape: all, engine, bare, onetbb, openmp, starpu, recorded or "
                 "relaunch; then / and chain, independent, tree, wavefront or random")
      ->type_name("PEER[/SHAPE]");
  app.add_option("--rounds", flags.rounds, "rounds of each (default: 5 of most)")
      ->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  const absl::StatusOr<Selection> selection = Selection::Parse(flags.only);
  if (!selection.ok()) {
    std::fprintf(stderr, "engine_bench: --only: %s\n",
                 std::string(selection.status().message()).c_str());
    return kExitUsage;
  }

#ifndef NDEBUG
  std::fprintf(stderr, "engine_bench: not a release build; the numbers mean little\n");
#endif
  alarm(kLongestRunSeconds);
  Report report(flags.json ? Report::Format::kJson : Report::Format::kTable);
  const absl::Status status = MeasureAll(flags, *selection, report);
  if (!status.ok()) return Fail(status);
  if (report.ok() || flags.quick) return 0;
  std::fprintf(stderr, "engine_bench: %d targets missed\n", report.missed());
  return kExitFailed;
}

}  // namespace
}  // namespace pto::bench

int main(int argc, char** argv) { return pto::bench::Main(argc, argv); }

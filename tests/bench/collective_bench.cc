// collective_bench: the cost of collectives in our engine and between our processes, compared with
// MPI and with the memory bandwidth. See README.md.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/collectives/case.h"
#include "tests/bench/collectives/engine_side.h"
#include "tests/bench/collectives/memory_rate.h"
#include "tests/bench/collectives/rank_programs.h"
#include "tests/bench/report.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr unsigned kLongestRunSeconds = 1200;
constexpr uint32_t kRankCounts[] = {2, 4, 8};

struct Flags {
  bool json = false;
  bool quick = false;
  bool without_mpi = false;
  std::string only;
  uint64_t largest = UINT64_MAX;
  uint32_t ranks = 0;
  int rounds = 5;
};

struct Effort {
  double engine_seconds = 0.12;
  int program_ms = 120;
  int rounds = 5;
};

// Microseconds of each case, by side: "engine", "independent" and the programs' names.
using Times = std::map<std::string, std::map<std::string, Rounds>>;

Target EngineTarget(const CollectiveCase& measured) {
  if (measured.ranks == 2) return Target::AtMost(0.8);
  return Target::AtMost(measured.bytes <= 64 << 10 ? 0.3 : 0.6);
}

// Measures all sides directly after each other, for cases with the same number of ranks.
absl::Status MeasureRound(const std::vector<CollectiveCase>& cases, const RankPrograms& programs,
                          const Effort& effort, Times* times) {
  for (const std::string& name : programs.names()) {
    std::map<std::string, double> measured;
    PTO_ASSIGN_OR_RETURN(measured, programs.Run(name, cases, effort.program_ms));
    for (const CollectiveCase& done : cases)
      (*times)[done.name()][name].Add(measured[done.argument()]);
  }
  EngineSide engine(cases[0].ranks);
  for (const CollectiveCase& measured : cases) {
    PTO_ASSIGN_OR_RETURN(const double chain, engine.Chain(measured, effort.engine_seconds));
    (*times)[measured.name()]["engine"].Add(chain);
    if (measured.bytes > 256) continue;
    PTO_ASSIGN_OR_RETURN(const double apart, engine.Independent(measured, effort.engine_seconds));
    (*times)[measured.name()]["independent"].Add(apart);
  }
  return absl::OkStatus();
}

void AddLines(const CollectiveCase& measured, const std::map<std::string, Rounds>& times,
              Report& report) {
  const auto cost = [&](const std::string& side) { return times.at(side).median(); };
  std::string better;
  for (const char* const mpi : {"openmpi", "mpich"}) {
    if (!times.contains(mpi)) continue;
    report.Add({absl::StrCat(measured.name(), "_", mpi), cost(mpi), "us"});
    if (better.empty() || cost(mpi) < cost(better)) better = mpi;
  }
  const auto add = [&](const char* side, absl::optional<Target> target) {
    Line line{absl::StrCat(measured.name(), "_", side), cost(side), "us"};
    if (!better.empty()) {
      line.against = better;
      line.against_value = cost(better);
      line.own_ratio = times.at(side).median_ratio(times.at(better));
      line.target = target;
    }
    report.Add(line);
  };
  add("engine", EngineTarget(measured));
  add("comm", Target::AtMost(1.0));
  if (times.contains("independent")) add("independent", absl::nullopt);
}

// The throughput of the longest messages, compared with the memory bandwidth.
void AddMemoryLine(const CollectiveCase& measured, const std::map<std::string, Rounds>& times,
                   double memory_rate, Report& report) {
  if (measured.bytes < 16 << 20) return;
  Line line{absl::StrCat(measured.name(), "_engine_moves"),
            static_cast<double>(measured.moved_bytes()) / times.at("engine").median() * 1e-3,
            "GB/s", "memcpy of two threads", memory_rate * 1e-9};
  if (measured.op == Op::kAllReduce && measured.ranks == 2) line.target = Target::AtLeast(0.6);
  report.Add(line);
}

absl::Status MeasureAll(const Flags& flags, const std::vector<Op>& ops, Report& report) {
  Effort effort;
  effort.rounds = flags.rounds;
  if (flags.quick) effort = {0.01, 10, 1};
  PTO_ASSIGN_OR_RETURN(const RankPrograms programs, RankPrograms::Make(!flags.without_mpi));
  const double memory_rate = MemoryRate(2, effort.engine_seconds * 4);
  report.Add({"memcpy_1t_moves", MemoryRate(1, effort.engine_seconds * 4) * 1e-9, "GB/s"});
  report.Add({"memcpy_2t_moves", memory_rate * 1e-9, "GB/s"});
  for (const uint32_t ranks : kRankCounts) {
    if (flags.ranks != 0 && flags.ranks != ranks) continue;
    std::vector<std::vector<CollectiveCase>> cases_of_ops;
    for (const Op op : ops) {
      std::vector<CollectiveCase> cases = CasesOf({op}, ranks, flags.quick);
      std::erase_if(cases,
                    [&flags](const CollectiveCase& some) { return some.bytes > flags.largest; });
      if (!cases.empty()) cases_of_ops.push_back(std::move(cases));
    }
    Times times;
    for (int round = 0; round < effort.rounds; ++round) {
      for (const std::vector<CollectiveCase>& cases : cases_of_ops) {
        PTO_RETURN_IF_ERROR(MeasureRound(cases, programs, effort, &times));
      }
    }
    for (const std::vector<CollectiveCase>& cases : cases_of_ops) {
      for (const CollectiveCase& measured : cases) {
        AddLines(measured, times[measured.name()], report);
        AddMemoryLine(measured, times[measured.name()], memory_rate, report);
      }
    }
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Measures collectives beside MPI. Exit code 1: a target was missed.",
               "collective_bench");
  app.add_flag("--json", flags.json, "one JSON object per line");
  app.add_flag("--quick", flags.quick,
               "some seconds, to see that everything works; targets do not count");
  app.add_flag("--without-mpi", flags.without_mpi, "only ours");
  app.add_option("--only", flags.only,
                 "barrier, broadcast, allreduce, allgather, reduce_scatter or all_to_all")
      ->type_name("OP");
  app.add_option("--largest", flags.largest, "leaves out what has more bytes")->type_name("BYTES");
  app.add_option("--ranks", flags.ranks, "only 2, 4 or 8 ranks (default all)")
      ->check(CLI::IsMember({2, 4, 8}));
  app.add_option("--rounds", flags.rounds, "rounds of each (default 5)")
      ->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  std::vector<Op> ops(std::begin(kOps), std::end(kOps));
  if (!flags.only.empty()) {
    const absl::optional<Op> only = FindOp(flags.only);
    if (!only.has_value()) {
      std::fprintf(stderr, "collective_bench: --only: there is no '%s'\n", flags.only.c_str());
      return kExitUsage;
    }
    ops = {*only};
  }
#ifndef NDEBUG
  std::fprintf(stderr, "collective_bench: not a release build; the numbers mean little\n");
#endif
  alarm(kLongestRunSeconds);
  Report report(flags.json ? Report::Format::kJson : Report::Format::kTable);
  const absl::Status status = MeasureAll(flags, ops, report);
  if (!status.ok()) {
    std::fprintf(stderr, "collective_bench: %s\n", status.ToString().c_str());
    return kExitFailed;
  }
  if (report.ok() || flags.quick) return 0;
  std::fprintf(stderr, "collective_bench: %d targets missed\n", report.missed());
  return kExitFailed;
}

}  // namespace
}  // namespace pto::bench

int main(int argc, char** argv) { return pto::bench::Main(argc, argv); }

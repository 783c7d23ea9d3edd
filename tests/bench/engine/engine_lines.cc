#include "tests/bench/engine/engine_lines.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace pto::bench {
namespace {

constexpr const char* kOneTbb = "oneTBB flow graph";
constexpr const char* kOpenMp = "OpenMP depend";
constexpr const char* kStarPu = "StarPU";
constexpr const char* kBare = "bare arrays";

constexpr double kTotalToOneTbb = 0.4;
constexpr double kRunToOneTbb = 0.4;
constexpr double kChainRunToOneTbb = 1;
constexpr double kTotalToOpenMp = 0.4;
constexpr double kTotalToStarPu = 0.05;
constexpr double kMaxBytes = 200;
constexpr double kGrowth = 1.3;
constexpr double kRelaunchToCompile = 0.05;
constexpr double kRecordedToPlain = 1.05;

// For other shapes, OpenMP runs a task when it is created, and has no graph.
bool HasGraphInOpenMp(Shape shape) {
  return shape == Shape::kChain || shape == Shape::kWavefront || shape == Shape::kRandom;
}

const Cost* Find(const Costs& costs, Contender contender) {
  const auto found = costs.find(contender);
  return found == costs.end() ? nullptr : &found->second;
}

// Adds the lines of one case.
class CaseLines {
 public:
  CaseLines(const GraphCase& measured, Report& report)
      : prefix_(measured.name()), report_(report) {}

  void Alone(absl::string_view what, double value, absl::string_view unit) {
    report_.Add({absl::StrCat(prefix_, "_", what), value, std::string(unit)});
  }
  void Beside(absl::string_view what, double value, absl::string_view unit,
              absl::string_view against, double against_value,
              absl::optional<Target> target = absl::nullopt) {
    report_.Add({absl::StrCat(prefix_, "_", what), value, std::string(unit), std::string(against),
                 against_value, target});
  }
  // `what` begins the names.
  void AllAlone(absl::string_view what, const Cost& cost) {
    Phases(what, cost);
    Alone(absl::StrCat(what, "_total"), cost.total_ns, "ns/task");
    Alone(absl::StrCat(what, "_bytes"), cost.bytes, "B/task");
    if (cost.peak_bytes.has_value()) {
      Alone(absl::StrCat(what, "_peak_bytes"), *cost.peak_bytes, "B/task");
    }
  }
  void Phases(absl::string_view what, const Cost& cost) {
    Alone(absl::StrCat(what, "_build"), cost.build_ns, "ns/task");
    Alone(absl::StrCat(what, "_run"), cost.run_ns, "ns/task");
  }
  void Bytes(absl::string_view what, const Cost& cost) {
    Beside(absl::StrCat(what, "_bytes"), cost.bytes, "B/task", "limit", kMaxBytes,
           Target::AtMost(1));
  }
  void PeakBeside(absl::string_view what, const Cost& cost, absl::string_view against,
                  const Cost& other) {
    if (!cost.peak_bytes.has_value() || !other.peak_bytes.has_value()) return;
    Beside(what, *cost.peak_bytes, "B/task", against, *other.peak_bytes);
  }

 private:
  const std::string prefix_;
  Report& report_;
};

void AddNamed(CaseLines& lines, Shape shape, const Cost& named, const Costs& costs) {
  if (const Cost* const tbb = Find(costs, Contender::kOneTbb)) {
    lines.Beside("named_build", named.build_ns, "ns/task", kOneTbb, tbb->build_ns);
    lines.Beside("named_run", named.run_ns, "ns/task", kOneTbb, tbb->run_ns,
                 Target::AtMost(shape == Shape::kChain ? kChainRunToOneTbb : kRunToOneTbb));
    lines.Beside("named_total", named.total_ns, "ns/task", kOneTbb, tbb->total_ns,
                 Target::AtMost(kTotalToOneTbb));
    lines.Bytes("named", named);
    lines.Beside("named_bytes_beside_onetbb", named.bytes, "B/task", kOneTbb, tbb->bytes);
    lines.PeakBeside("named_peak_bytes", named, kOneTbb, *tbb);
  } else {
    lines.Phases("named", named);
    lines.Alone("named_total", named.total_ns, "ns/task");
    lines.Bytes("named", named);
    if (named.peak_bytes.has_value()) {
      lines.Alone("named_peak_bytes", *named.peak_bytes, "B/task");
    }
  }
  if (const Cost* const bare = Find(costs, Contender::kBare)) {
    lines.Beside("named_total_beside_bare", named.total_ns, "ns/task", kBare, bare->total_ns);
    lines.AllAlone("bare", *bare);
  }
}

void AddFound(CaseLines& lines, Shape shape, const Cost& found, const Costs& costs) {
  lines.Phases("found", found);
  lines.Alone("found_total", found.total_ns, "ns/task");
  lines.Bytes("found", found);
  if (found.peak_bytes.has_value()) lines.Alone("found_peak_bytes", *found.peak_bytes, "B/task");
  if (const Cost* const openmp = Find(costs, Contender::kOpenMp)) {
    lines.Beside("found_total_beside_openmp", found.total_ns, "ns/task", kOpenMp, openmp->total_ns,
                 HasGraphInOpenMp(shape) ? absl::make_optional(Target::AtMost(kTotalToOpenMp))
                                         : absl::nullopt);
    lines.PeakBeside("found_peak_bytes_beside_openmp", found, kOpenMp, *openmp);
    lines.Phases("openmp", *openmp);
  }
  if (const Cost* const starpu = Find(costs, Contender::kStarPu)) {
    lines.Beside("found_total_beside_starpu", found.total_ns, "ns/task", kStarPu, starpu->total_ns,
                 Target::AtMost(kTotalToStarPu));
    lines.PeakBeside("found_peak_bytes_beside_starpu", found, kStarPu, *starpu);
    lines.Phases("starpu", *starpu);
  }
}

}  // namespace

std::string GraphCase::name() const {
  return absl::StrCat(ShapeName(shape), "_1e", std::lround(std::log10(tasks)), "_", threads, "t");
}

void AddCaseLines(const GraphCase& measured, const Costs& costs, Report& report) {
  CaseLines lines(measured, report);
  if (const Cost* const named = Find(costs, Contender::kNamed)) {
    AddNamed(lines, measured.shape, *named, costs);
  }
  if (const Cost* const found = Find(costs, Contender::kFound)) {
    AddFound(lines, measured.shape, *found, costs);
  }
}

void AddRecordedLines(const GraphCase& measured, const Costs& costs, Report& report) {
  const Cost* const named = Find(costs, Contender::kNamed);
  const Cost* const recorded = Find(costs, Contender::kRecorded);
  if (named == nullptr || recorded == nullptr) return;
  CaseLines lines(measured, report);
  lines.Beside("recorded_run", recorded->run_ns, "ns/task", "without records", named->run_ns);
  lines.Beside("recorded_total", recorded->total_ns, "ns/task", "without records", named->total_ns,
               measured.shape == Shape::kWavefront
                   ? absl::make_optional(Target::AtMost(kRecordedToPlain))
                   : absl::nullopt);
}

void AddGrowthLines(const GraphCase& small, const Costs& small_costs, const GraphCase& large,
                    const Costs& large_costs, Report& report) {
  CaseLines lines(large, report);
  const auto add = [&](Contender contender, absl::string_view what) {
    const Cost* const from = Find(small_costs, contender);
    const Cost* const to = Find(large_costs, contender);
    if (from == nullptr || to == nullptr) return;
    lines.Beside(what, to->total_ns, "ns/task", small.name(), from->total_ns,
                 Target::AtMost(kGrowth));
  };
  add(Contender::kNamed, "named_growth");
  add(Contender::kFound, "found_growth");
}

void AddRelaunchLine(const GraphCase& measured, double relaunch_seconds, double compile_seconds,
                     Report& report) {
  CaseLines lines(measured, report);
  lines.Beside("relaunch", relaunch_seconds * 1e6, "us", "compile", compile_seconds * 1e6,
               Target::AtMost(kRelaunchToCompile));
}

}  // namespace pto::bench

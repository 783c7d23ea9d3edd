#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/examples/scenarios/scenario.h"
#include "client/job/chip_list.h"
#include "client/job/nearest.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/write_trace.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

using scenarios::Scenario;

struct RunScenarioOptions {
  std::vector<std::string> names;
  std::string chips;
  int repeat = 1;
  int64_t size = 0;
  std::string trace;
};

// Parses a chip list without duplicates, because each rank needs its own chip. An empty text gives
// an empty list, which means all chips of the node.
absl::StatusOr<std::vector<uint32_t>> DistinctChips(const std::string& text) {
  if (text.empty()) return std::vector<uint32_t>();
  const absl::StatusOr<std::vector<uint32_t>> chips = job::ParseChipList(text);
  if (!chips.ok()) {
    return Error(reason::kUsage, absl::StrCat("--chips: ", chips.status().message()));
  }
  std::vector<uint32_t> sorted = *chips;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return chips;
  return Error(reason::kUsage, absl::StrCat("--chips: ", text, " names chip ", *twice, " twice"))
      .Hint("each rank needs its own chip; list every chip once");
}

absl::StatusOr<std::vector<const Scenario*>> Select(const std::vector<std::string>& names) {
  std::vector<const Scenario*> selected;
  for (const std::string& name : names) {
    if (name == "all") {
      for (const Scenario& scenario : scenarios::AllScenarios()) selected.push_back(&scenario);
      continue;
    }
    const Scenario* const found = scenarios::FindScenario(name);
    if (found == nullptr) {
      std::vector<std::string> known;
      for (const Scenario& scenario : scenarios::AllScenarios()) known.push_back(scenario.name);
      const std::string nearest = job::Nearest(name, known);
      return Error(reason::kUsage, absl::StrCat("there is no scenario '", name, "'"))
          .Hint(nearest.empty() ? "see `ptoctl scenarios ls`"
                                : absl::StrCat("did you mean '", nearest, "'?"));
    }
    selected.push_back(found);
  }
  return selected;
}

absl::Status CheckSize(const std::vector<const Scenario*>& selected, int64_t size) {
  if (size == 0) return absl::OkStatus();
  for (const Scenario* scenario : selected) {
    if (scenario->takes_size) continue;
    return Error(reason::kUsage, absl::StrCat("--size: ", scenario->name, " has a fixed size"))
        .Hint("only collectives accept --size; omit it or run only collectives");
  }
  return absl::OkStatus();
}

// Returns `named` after checking that the node has all these chips, or all chips of the node if
// `named` is empty.
absl::StatusOr<std::vector<uint32_t>> ChipsOfNode(Client& client, std::vector<uint32_t> named) {
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Chip> all, client.ListChips());
  if (named.empty()) {
    for (uint32_t i = 0; i < all.size(); ++i) named.push_back(i);
    return named;
  }
  for (const uint32_t chip : named) {
    if (chip < all.size()) continue;
    return Error(reason::kChipUnknown, absl::StrCat("--chips: there is no chips/", chip,
                                                    ", the node has ", all.size(), " chips"))
        .With("chip", absl::StrCat("chips/", chip));
  }
  return named;
}

std::string ChipsText(const Scenario& scenario) {
  if (scenario.min_chips == scenario.max_chips) return absl::StrCat(scenario.min_chips);
  return absl::StrCat(scenario.min_chips, "-", scenario.max_chips);
}

absl::Status List(Context& context) {
  if (context.quiet || context.output == "name") {
    for (const Scenario& scenario : scenarios::AllScenarios()) context.out << scenario.name << "\n";
    return absl::OkStatus();
  }
  context.out << std::left << std::setw(30) << "NAME" << std::setw(7) << "CHIPS" << "WHAT\n";
  for (const Scenario& scenario : scenarios::AllScenarios()) {
    context.out << std::setw(30) << scenario.name << std::setw(7) << ChipsText(scenario)
                << scenario.summary << "\n";
  }
  return absl::OkStatus();
}

absl::Status RunScenarios(Context& context, const RunScenarioOptions& options) {
  PTO_ASSIGN_OR_RETURN(const std::vector<const Scenario*> selected, Select(options.names));
  PTO_RETURN_IF_ERROR(CheckSize(selected, options.size));
  PTO_ASSIGN_OR_RETURN(const std::vector<uint32_t> named, DistinctChips(options.chips));
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::vector<uint32_t> chips, ChipsOfNode(client, named));
  int failed = 0;
  int skipped = 0;
  for (const Scenario* scenario : selected) {
    context.out << std::left << std::setw(30) << scenario->name << std::flush;
    if (chips.size() < scenario->min_chips) {
      context.out << "skipped: needs " << scenario->min_chips << " chips, there are "
                  << chips.size() << "\n";
      ++skipped;
      continue;
    }
    scenarios::Options given;
    given.chips = chips;
    given.chips.resize(std::min<size_t>(chips.size(), scenario->max_chips));
    given.repeat = options.repeat;
    given.size = options.size;
    if (!options.trace.empty()) {
      given.after_run = [&](const std::string& run) {
        return WriteTrace(client, run, options.trace);
      };
    }
    const absl::Time start = absl::Now();
    const absl::Status status = scenario->run(client, given);
    const absl::Duration took = absl::Now() - start;
    if (status.ok()) {
      context.out << "ok, " << given.chips.size() << " chips, "
                  << absl::FormatDuration(absl::Trunc(took, absl::Milliseconds(1))) << "\n";
    } else {
      context.out << "FAILED: " << status.message() << "\n";
      ++failed;
    }
  }
  const size_t ran = selected.size() - static_cast<size_t>(skipped);
  context.out << ran - static_cast<size_t>(failed) << " of " << ran << " scenarios passed";
  if (skipped > 0) context.out << ", " << skipped << " skipped";
  context.out << "\n";
  if (failed == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(failed, " scenarios failed"));
}

}  // namespace

void AddScenariosCommand(Command& root, Context& context) {
  Command& scenarios =
      root.AddCommand("scenarios", "Run example programs that check their own results");
  Command& list = scenarios.AddCommand("ls", "List scenarios");
  list.Footer("Examples:\n  ptoctl scenarios ls");
  list.Action([&context] { return List(context); });

  Command& run = scenarios.AddCommand("run", "Run scenarios and check their results");
  auto options = std::make_shared<RunScenarioOptions>();
  run.AddOption("NAME", &options->names, "Scenarios to run, or \"all\"").Required();
  run.AddOption("--chips", &options->chips,
                "Chips to use, for example 0-3 or 0,2 (default: all chips)");
  run.AddOption("--repeat", &options->repeat,
                "Number of times to run the graph, in one domain (default 1)")
      .Range(1, 1'000'000);
  run.AddOption("--size", &options->size, "Elements per rank; for collectives only")
      .Range(1, 1 << 28);
  run.AddOption("--trace", &options->trace,
                "Write a trace of the last run to a .json (Perfetto), .svg or .html file")
      .Check(CheckTraceName);
  run.Footer(
      "Examples:\n  ptoctl scenarios run all --chips 0-7\n"
      "  ptoctl scenarios run moe_ep --trace moe_ep.svg\n"
      "  ptoctl scenarios run allreduce_ring --repeat 1000 --size 4096");
  run.Action([&context, options] { return RunScenarios(context, *options); });
}

}  // namespace pto::ptoctl

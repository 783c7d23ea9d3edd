#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/client.h"

// Programs that use the chips of a node the way distributed work does, each with a check of its
// results against numbers that were found without the daemon.
namespace pto::scenarios {

// What a scenario is given.
struct Options {
  // At least as many as it needs; their order is that of the ranks.
  std::vector<uint32_t> chips;
  // How often the same graph is run, in the same session and domain.
  int repeat = 1;
  // Elements on each rank, for scenarios that take a size; 0 means its own.
  int64_t size = 0;
  // Called after each run of its graph, while the session and the graph are there, by the full
  // name of the run. May be empty.
  std::function<absl::Status(const std::string& run)> after_run = {};
};

struct Scenario {
  const char* name;
  const char* summary;
  uint32_t min_chips;
  uint32_t max_chips;  // more are not used
  bool takes_size;     // whether Options::size means something to it
  // Returns what was wrong: an error of the daemon, or DATA_LOSS for a wrong result.
  absl::Status (*run)(Client& client, const Options& options);
};

// All of them, in the order in which `ptoctl scenarios ls` shows them.
absl::Span<const Scenario> AllScenarios();

// nullptr when there is none of that name.
const Scenario* FindScenario(absl::string_view name);

}  // namespace pto::scenarios

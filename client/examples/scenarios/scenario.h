#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/client.h"

// Programs that use the chips of a node like distributed workloads, each with a check of its
// results against numbers computed without the daemon.
namespace pto::scenarios {

// The input of a scenario.
struct Options {
  // At least as many chips as it needs, in order of the ranks.
  std::vector<uint32_t> chips;
  // How often to run the same graph, in the same session and domain.
  int repeat = 1;
  // Elements on each rank, for scenarios that take a size; 0 means the scenario's default.
  int64_t size = 0;
  // Called after each run of its graph, with the full name of the run, while the session and the
  // graph still exist. May be empty.
  std::function<absl::Status(const std::string& run)> after_run = {};
};

struct Scenario {
  const char* name;
  const char* summary;
  uint32_t min_chips;
  uint32_t max_chips;  // more are not used
  bool takes_size;     // whether it uses Options::size
  // Returns an error of the daemon, or DATA_LOSS for a wrong result.
  absl::Status (*run)(Client& client, const Options& options);
};

// All scenarios, in the order of `ptoctl scenarios ls`.
absl::Span<const Scenario> AllScenarios();

// nullptr if there is no scenario of that name.
const Scenario* FindScenario(absl::string_view name);

}  // namespace pto::scenarios

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto::soak {

inline constexpr absl::string_view kUsage =
    "Usage: soak [--seconds=600] [--clients=50] [--seed=N] [--chips=4] [--no-faults] [--json]\n"
    "\n"
    "Starts a ptod with simulated chips and failpoints, lets random clients use it, restarts it\n"
    "twice, and checks all results. The exit code is 0 when nothing was wrong.\n";

struct Options {
  int seconds = 600;
  int clients = 50;
  uint64_t seed = 1;
  uint32_t chips = 4;
  // Whether to lose calls and restart the daemon.
  bool faults = true;
  bool json = false;
};

// INVALID_ARGUMENT names the invalid option.
absl::StatusOr<Options> ParseOptions(int argc, char** argv);

}  // namespace pto::soak

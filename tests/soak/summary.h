#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tests/soak/tally.h"

namespace pto::soak {

// The daemon's state at one moment.
struct Figures {
  absl::Duration passed;
  int restarts = 0;
  uint64_t resident_bytes = 0;
  uint64_t files = 0;
  uint64_t sessions = 0;
  uint64_t active_runs = 0;
};

// A line every few seconds, as text or as one JSON object.
std::string ProgressLine(const Figures& figures, const Tally& tally, bool json);

// The last lines: the work done, expected errors by reason, memory, failures, and the verdict.
struct Verdict {
  Figures figures;
  // For the daemon's resident memory in the second half.
  double slope_bytes_per_minute = 0;
  double first_resident_bytes = 0;  // the mean of the first and of the last tenth
  double last_resident_bytes = 0;
  bool ok = false;
};
std::string Summary(const Verdict& verdict, const Tally& tally, bool json);

}  // namespace pto::soak

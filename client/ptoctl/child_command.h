#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pto::ptoctl {

// Runs a program with our files and our environment, changed by `environment`, and waits for its
// end. Returns its exit code, or 128 and the number of the signal that ended it. SIGTERM, SIGHUP
// and a SIGINT that is not the terminal's (which the program gets itself) go on to it. It is
// terminated when we are killed. USAGE when it cannot be started. One at a time.
absl::StatusOr<int> RunChild(const std::vector<std::string>& command,
                             const std::map<std::string, std::string>& environment);

}  // namespace pto::ptoctl

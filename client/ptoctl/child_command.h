#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pto::ptoctl {

// Runs a program and waits for it to exit. The program inherits our open files and our
// environment with the changes in `environment`. Returns its exit code, or 128 plus the signal
// number if a signal ended it. Forwards SIGTERM, SIGHUP and SIGINT, except a SIGINT from the
// terminal, which the program receives itself. If we are killed, the program gets SIGTERM. Returns
// USAGE if the program cannot be started. Only one call may be active at a time.
//
// What the program has started and left running is ended too: by SIGTERM, and two seconds later by
// SIGKILL. The caller must have no other child processes.
absl::StatusOr<int> RunChild(const std::vector<std::string>& command,
                             const std::map<std::string, std::string>& environment);

}  // namespace pto::ptoctl

#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/harness/process.h"
#include "tests/harness/runfile.h"

namespace pto::testing {

// Runs ptoctl to its end, against the daemon at `address`.
inline ProgramResult RunPtoctl(const std::string& address, std::vector<std::string> args,
                               absl::Duration timeout = absl::Seconds(60)) {
  args.insert(args.begin(), Runfile("client/ptoctl/ptoctl"));
  return RunProgram(args, {{"PTOD_ADDRESS", address}}, timeout);
}

}  // namespace pto::testing

#pragma once

#include "absl/status/status.h"

namespace pto::ptoctl {

// What ptoctl ends with. Part of its interface.
enum class ExitCode {
  kOk = 0,
  // The daemon refused, a run failed, a check did not hold.
  kFailed = 1,
  // The command line or the job file is wrong; nothing was asked of the daemon.
  kUsage = 2,
  kNoDaemon = 3,
  kTimedOut = 4,
};

ExitCode ExitCodeOf(const absl::Status& status);

// Whether nothing went wrong but that the time was up.
bool IsTimeout(const absl::Status& status);

}  // namespace pto::ptoctl

#pragma once

#include "absl/status/status.h"

namespace pto::ptoctl {

// The exit codes of ptoctl. They are part of its interface.
enum class ExitCode {
  kOk = 0,
  // The daemon rejected the request, a run failed or a check failed.
  kFailed = 1,
  // The command line or the job file is invalid; nothing was sent to the daemon.
  kUsage = 2,
  kNoDaemon = 3,
  kTimedOut = 4,
};

ExitCode ExitCodeOf(const absl::Status& status);

// Whether the error is a client-side timeout.
bool IsTimeout(const absl::Status& status);

}  // namespace pto::ptoctl

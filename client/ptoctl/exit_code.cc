#include "client/ptoctl/exit_code.h"

#include "runtime/base/error.h"

namespace pto::ptoctl {

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return ExitCode::kOk;
  const std::string name = ReasonOf(status);
  if (name == reason::kDaemonUnreachable.name) return ExitCode::kNoDaemon;
  if (name == reason::kClientTimeout.name) return ExitCode::kTimedOut;
  if (name == reason::kJobInvalid.name || name == reason::kUsage.name) return ExitCode::kUsage;
  return ExitCode::kFailed;
}

bool IsTimeout(const absl::Status& status) {
  return ReasonOf(status) == reason::kClientTimeout.name;
}

}  // namespace pto::ptoctl

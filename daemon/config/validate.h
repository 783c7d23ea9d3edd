#pragma once

#include "absl/status/status.h"
#include "daemon/config/config.pb.h"

namespace pto::daemon {

// Checks an effective configuration, in which every setting has a value. The error names the
// setting and what it may be. Errors: CONFIG_INVALID.
absl::Status ValidateConfig(const config::v1::DaemonConfig& config);

}  // namespace pto::daemon

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/config/config.pb.h"

namespace pto::daemon {

// Reads a configuration file: text protobuf of config::v1::DaemonConfig. Unknown settings are
// errors. An error says file:line:column and what was expected there.
// Errors: CONFIG_INVALID.
absl::StatusOr<config::v1::DaemonConfig> LoadConfig(const std::string& path);

// The same for the contents of a file; `name` stands for it in errors.
absl::StatusOr<config::v1::DaemonConfig> ParseConfig(absl::string_view name,
                                                     const std::string& text);

}  // namespace pto::daemon

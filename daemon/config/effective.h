#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/config/config.pb.h"
#include "daemon/config/settings.h"

namespace pto::daemon {

// The origin of a setting's value. Later ones override earlier ones.
enum class Origin { kDefault, kFile, kFlag };

// Every setting with its value.
struct EffectiveConfig {
  config::v1::DaemonConfig config;
  // In the order of AllSettings.
  std::vector<Origin> origins;
};

// The command line: settings and their texts. A list's setting may appear many times.
using FlagValues = std::vector<std::pair<const Setting*, std::string>>;

// Combines defaults, file and flags; flags override the file. Does not validate the result. Errors:
// CONFIG_INVALID for a text that does not match the setting's type.
absl::StatusOr<EffectiveConfig> MakeEffective(const config::v1::DaemonConfig& file,
                                              const FlagValues& flags,
                                              const std::string& default_listen);

// The configuration as text protobuf that can be used as a file, with a comment on each line that
// says where the value comes from.
std::string PrintConfig(const EffectiveConfig& effective);

}  // namespace pto::daemon

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/config/config.pb.h"
#include "daemon/config/settings.h"

namespace pto {

// Where a setting's value comes from; the last that says something wins.
enum class Origin { kDefault, kFile, kFlag };

// Every setting with its value.
struct EffectiveConfig {
  config::v1::DaemonConfig config;
  // In the order of AllSettings.
  std::vector<Origin> origins;
};

// What the command line said: a setting and its text. A list's setting may be there many times.
using FlagValues = std::vector<std::pair<const Setting*, std::string>>;

// Lays the flags over the file over the defaults. Does not validate the result.
// Errors: CONFIG_INVALID for a text that is not of the setting's type.
absl::StatusOr<EffectiveConfig> MakeEffective(const config::v1::DaemonConfig& file,
                                              const FlagValues& flags,
                                              const std::string& default_listen);

// The configuration as text protobuf that can be used as a file, with a comment on each line that
// says where the value comes from.
std::string PrintConfig(const EffectiveConfig& effective);

}  // namespace pto

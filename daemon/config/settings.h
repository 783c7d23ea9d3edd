#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/config/config.pb.h"

namespace pto::daemon {

// One setting: a field of DaemonConfig that has a value, with its flag and its default.
struct Setting {
  // Path in DaemonConfig, such as `session.max_ttl`.
  const char* key;
  // Without the dashes.
  const char* flag;
  // As on the command line. The default of `listen` depends on the user: see DefaultListenAddress.
  const char* default_value;
  // Whether zero or an empty text also means the default.
  bool zero_is_default;
  const char* help;
};

// All settings, in the order of config.proto.
absl::Span<const Setting> AllSettings();

// Parses `text` as the setting's type and sets it, or appends it to a list. Accepts 512M or 16G for
// bytes and 30s or 1h30m for durations. The error says what was expected.
absl::Status SetFromText(const Setting& setting, absl::string_view text,
                         config::v1::DaemonConfig* config);

// Whether the setting may be given more than once.
bool IsList(const Setting& setting);

// Whether `config` sets the setting; zero may mean unset.
bool IsSet(const Setting& setting, const config::v1::DaemonConfig& config);

void CopySetting(const Setting& setting, const config::v1::DaemonConfig& from,
                 config::v1::DaemonConfig* to);

// What kind of value it takes, for help: COUNT, BYTES, DURATION, TEXT, or empty for yes or no.
absl::string_view TypeName(const Setting& setting);

// The setting's line, or lines, of text protobuf without its enclosing message.
std::string ToTextProto(const Setting& setting, const config::v1::DaemonConfig& config);

// The value as on the command line; values of a list are separated by spaces.
std::string ToText(const Setting& setting, const config::v1::DaemonConfig& config);

// unix:/run/ptod/ptod.sock for root; else a socket in `runtime_dir` when there is one.
// `runtime_dir` is XDG_RUNTIME_DIR and may be nullptr.
std::string DefaultListenAddress(bool is_root, const char* runtime_dir);

}  // namespace pto::daemon

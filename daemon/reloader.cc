#include "daemon/reloader.h"

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/config/settings.h"
#include "runtime/base/log.h"

namespace pto::daemon {
namespace {

bool Names(const std::vector<std::string>& settings, absl::string_view key) {
  for (const std::string& name : settings) {
    if (absl::EndsWith(name, ".") ? absl::StartsWith(key, name) : key == name) return true;
  }
  return false;
}

}  // namespace

void Reloader::Add(std::vector<std::string> settings, Function apply) {
  parts_.push_back({std::move(settings), std::move(apply)});
}

absl::Status Reloader::Apply(const EffectiveConfig& next) {
  std::vector<const Part*> applied;
  absl::Status first_error;
  for (const Part& part : parts_) {
    const absl::Status status = part.apply(next.config);
    if (status.ok()) {
      applied.push_back(&part);
    } else {
      PTO_LOG(kError, "settings were not changed",
              {{"settings", absl::StrJoin(part.settings, " ")}, {"error", status.ToString()}});
      first_error.Update(status);
    }
  }

  std::vector<absl::string_view> changed;
  std::vector<absl::string_view> need_restart;
  const absl::Span<const Setting> settings = AllSettings();
  for (size_t i = 0; i < settings.size(); ++i) {
    const Setting& setting = settings[i];
    if (ToText(setting, next.config) == ToText(setting, current_.config)) continue;
    bool is_applied = false;
    bool is_known = false;
    for (const Part& part : parts_) is_known = is_known || Names(part.settings, setting.key);
    for (const Part* part : applied) is_applied = is_applied || Names(part->settings, setting.key);
    if (is_applied) {
      changed.push_back(setting.key);
      CopySetting(setting, next.config, &current_.config);
      current_.origins[i] = next.origins[i];
    } else if (!is_known) {
      need_restart.push_back(setting.key);
    }
  }
  PTO_LOG(kInfo, "configuration reloaded", {{"changed", absl::StrJoin(changed, " ")}});
  if (!need_restart.empty()) {
    PTO_LOG(kWarning, "settings have changed that need a restart",
            {{"settings", absl::StrJoin(need_restart, " ")}});
  }
  return first_error;
}

}  // namespace pto::daemon

#include "daemon/config/effective.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using config::v1::DaemonConfig;

// Defaults that depend on the profile of the simulated chips.
void ApplyProfile(EffectiveConfig& effective) {
  constexpr uint32_t kA5Clusters = 36;
  if (effective.config.sim_chips().profile() != "a5") return;
  for (size_t i = 0; i < effective.origins.size(); ++i) {
    if (absl::string_view(AllSettings()[i].key) == "sim_chips.clusters" &&
        effective.origins[i] == Origin::kDefault) {
      effective.config.mutable_sim_chips()->set_clusters(kA5Clusters);
    }
  }
}

absl::string_view NameOf(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return "default";
    case Origin::kFile:
      return "file";
    case Origin::kFlag:
      return "flag";
  }
  return "";
}

}  // namespace

absl::StatusOr<EffectiveConfig> MakeEffective(const DaemonConfig& file, const FlagValues& flags,
                                              const std::string& default_listen) {
  // Parse flags separately first: a flag of zero means the default, not the value of the file.
  DaemonConfig from_flags;
  for (const auto& [setting, text] : flags) {
    PTO_RETURN_IF_ERROR(SetFromText(*setting, text, &from_flags));
  }
  EffectiveConfig effective;
  for (const Setting& setting : AllSettings()) {
    bool has_flag = false;
    for (const auto& [flagged, text] : flags) has_flag = has_flag || flagged == &setting;
    if (IsSet(setting, from_flags)) {
      CopySetting(setting, from_flags, &effective.config);
      effective.origins.push_back(Origin::kFlag);
    } else if (!has_flag && IsSet(setting, file)) {
      CopySetting(setting, file, &effective.config);
      effective.origins.push_back(Origin::kFile);
    } else {
      const absl::string_view value = absl::string_view(setting.key) == "listen"
                                          ? absl::string_view(default_listen)
                                          : absl::string_view(setting.default_value);
      PTO_RETURN_IF_ERROR(SetFromText(setting, value, &effective.config));
      effective.origins.push_back(has_flag ? Origin::kFlag : Origin::kDefault);
    }
  }
  ApplyProfile(effective);
  return effective;
}

std::string PrintConfig(const EffectiveConfig& effective) {
  std::string out;
  std::string section;
  for (size_t i = 0; i < effective.origins.size(); ++i) {
    const Setting& setting = AllSettings()[i];
    const absl::string_view key = setting.key;
    const size_t dot = key.find('.');
    const std::string own_section(dot == absl::string_view::npos ? "" : key.substr(0, dot));
    if (own_section != section) {
      if (!section.empty()) absl::StrAppend(&out, "}\n");
      if (!own_section.empty()) absl::StrAppend(&out, own_section, " {\n");
      section = own_section;
    }
    for (absl::string_view line : absl::StrSplit(ToTextProto(setting, effective.config), '\n')) {
      absl::StrAppend(&out, section.empty() ? "" : "  ", line, "  # ", NameOf(effective.origins[i]),
                      "\n");
    }
  }
  if (!section.empty()) absl::StrAppend(&out, "}\n");
  return out;
}

}  // namespace pto::daemon

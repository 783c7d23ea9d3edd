#include "daemon/services/config_view.h"

#include "absl/strings/str_cat.h"
#include "daemon/config/settings.h"

namespace pto::daemon {
namespace {

v1::Config::Setting::Source SourceOf(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return v1::Config::Setting::DEFAULT;
    case Origin::kFile:
      return v1::Config::Setting::FILE;
    case Origin::kFlag:
      return v1::Config::Setting::FLAG;
  }
  return v1::Config::Setting::SOURCE_UNSPECIFIED;
}

}  // namespace

v1::Config ToProto(const EffectiveConfig& effective) {
  v1::Config config;
  for (size_t i = 0; i < effective.origins.size(); ++i) {
    const Setting& setting = AllSettings()[i];
    v1::Config::Setting& out = *config.add_settings();
    out.set_name(setting.key);
    out.set_value(ToText(setting, effective.config));
    out.set_source(SourceOf(effective.origins[i]));
    out.set_flag(absl::StrCat("--", setting.flag));
    out.set_description(setting.help);
  }
  return config;
}

}  // namespace pto::daemon

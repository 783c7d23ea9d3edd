#include <memory>
#include <utility>

#include "client/ptoctl/commands.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

void AddConfigCommand(Command& root, Context& context) {
  Command& config = root.AddCommand("config", "Show the configuration of the daemon");
  auto changed = std::make_shared<bool>(false);
  Command& show =
      config.AddCommand("show", "Show all settings of the daemon and the source of each value");
  show.AddFlag("--changed", changed.get(), "Show only settings that differ from their defaults");
  show.Footer("Examples:\n  ptoctl config show\n  ptoctl config show --changed -o json");
  show.Action([&context, changed]() -> absl::Status {
    PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
    PTO_ASSIGN_OR_RETURN(v1::Config all, client.GetConfig());
    v1::Config shown;
    for (v1::Config::Setting& setting : *all.mutable_settings()) {
      if (*changed && setting.source() == v1::Config::Setting::DEFAULT) continue;
      *shown.add_settings() = std::move(setting);
    }
    context.MakePrinter()->Config(shown);
    return absl::OkStatus();
  });
}

}  // namespace pto::ptoctl

#include "CLI/CLI.hpp"
#include "client/ptoctl/commands.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

void AddNodeCommand(CLI::App& app, Context& context) {
  CLI::App* node = app.add_subcommand("node", "The daemon and its limits");
  node->require_subcommand(1);
  CLI::App* info = node->add_subcommand("info", "Show version, state and limits of the daemon");
  info->footer("Examples:\n  ptoctl node info\n  ptoctl node info -o json");
  info->callback([&context] {
    context.action = [&context]() -> absl::Status {
      PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
      PTO_ASSIGN_OR_RETURN(const v1::Node reply, client.GetNode());
      context.MakePrinter()->Node(reply);
      return absl::OkStatus();
    };
  });
}

}  // namespace pto::ptoctl

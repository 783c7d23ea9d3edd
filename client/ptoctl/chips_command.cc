#include "CLI/CLI.hpp"
#include "client/ptoctl/commands.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

void AddChipsCommand(CLI::App& app, Context& context) {
  CLI::App* chips = app.add_subcommand("chips", "The chips of the node");
  chips->require_subcommand(1);
  CLI::App* ls = chips->add_subcommand("ls", "List chips with their state, cores and memory");
  ls->footer("Examples:\n  ptoctl chips ls\n  ptoctl chips ls -q");
  ls->callback([&context] {
    context.action = [&context]() -> absl::Status {
      PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
      PTO_ASSIGN_OR_RETURN(const std::vector<v1::Chip> list, client.ListChips());
      context.MakePrinter()->Chips(list);
      return absl::OkStatus();
    };
  });
  AddLeaseCommand(*chips, context);
}

}  // namespace pto::ptoctl

#include "client/ptoctl/commands.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

void AddChipsCommand(Command& root, Context& context) {
  Command& chips = root.AddCommand("chips", "The chips of the node");
  chips.AddCommand("ls", "List chips with their state, cores and memory")
      .Footer("Examples:\n  ptoctl chips ls\n  ptoctl chips ls -q")
      .Action([&context]() -> absl::Status {
        PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
        PTO_ASSIGN_OR_RETURN(const std::vector<v1::Chip> list, client.ListChips());
        context.MakePrinter()->Chips(list);
        return absl::OkStatus();
      });
  AddLeaseCommand(chips, context);
}

}  // namespace pto::ptoctl

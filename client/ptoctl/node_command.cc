#include "client/ptoctl/commands.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

void AddNodeCommand(Command& root, Context& context) {
  Command& node = root.AddCommand("node", "Show information about the daemon");
  node.AddCommand("info", "Show the version, state and limits of the daemon")
      .Footer("Examples:\n  ptoctl node info\n  ptoctl node info -o json")
      .Action([&context]() -> absl::Status {
        PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
        PTO_ASSIGN_OR_RETURN(const v1::Node reply, client.GetNode());
        context.MakePrinter()->Node(reply);
        return absl::OkStatus();
      });
}

}  // namespace pto::ptoctl

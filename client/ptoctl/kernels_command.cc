#include "client/ptoctl/commands.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

void AddKernelsCommand(Command& root, Context& context) {
  Command& kernels = root.AddCommand("kernels", "List the available kernels");
  kernels.AddCommand("ls", "List kernels with their core type, arguments and description")
      .Footer("Examples:\n  ptoctl kernels ls\n  ptoctl kernels ls -o json")
      .Action([&context]() -> absl::Status {
        PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
        PTO_ASSIGN_OR_RETURN(const std::vector<v1::Kernel> list, client.ListKernels());
        context.MakePrinter()->Kernels(list);
        return absl::OkStatus();
      });
}

}  // namespace pto::ptoctl

#include "client/ptoctl/commands.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

void AddKernelsCommand(Command& root, Context& context) {
  Command& kernels = root.AddCommand("kernels", "The kernels that tasks can name");
  kernels.AddCommand("ls", "List kernels with their arguments and scalars")
      .Footer("Examples:\n  ptoctl kernels ls\n  ptoctl kernels ls -o json")
      .Action([&context]() -> absl::Status {
        PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
        PTO_ASSIGN_OR_RETURN(const std::vector<v1::Kernel> list, client.ListKernels());
        context.MakePrinter()->Kernels(list);
        return absl::OkStatus();
      });
}

}  // namespace pto::ptoctl

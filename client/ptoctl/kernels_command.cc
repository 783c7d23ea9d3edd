#include "CLI/CLI.hpp"
#include "client/ptoctl/commands.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

void AddKernelsCommand(CLI::App& app, Context& context) {
  CLI::App* kernels = app.add_subcommand("kernels", "The kernels that tasks can name");
  kernels->require_subcommand(1);
  CLI::App* ls = kernels->add_subcommand("ls", "List kernels with their arguments and scalars");
  ls->footer("Examples:\n  ptoctl kernels ls\n  ptoctl kernels ls -o json");
  ls->callback([&context] {
    context.action = [&context]() -> absl::Status {
      PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
      PTO_ASSIGN_OR_RETURN(const std::vector<v1::Kernel> list, client.ListKernels());
      context.MakePrinter()->Kernels(list);
      return absl::OkStatus();
    };
  });
}

}  // namespace pto::ptoctl

#include "client/ptoctl/bash_completion.h"
#include "client/ptoctl/commands.h"

namespace pto::ptoctl {

void AddCompletionCommand(Command& root, Context& context) {
  Command& completion = root.AddCommand("completion", "Generate shell completion scripts");
  completion.AddCommand("bash", "Print a completion script for bash")
      .Footer(
          "Examples:\n  source <(ptoctl completion bash)\n"
          "  ptoctl completion bash > /etc/bash_completion.d/ptoctl")
      .Action([&root, &context] {
        context.out << BashCompletion(root);
        return absl::OkStatus();
      });
}

}  // namespace pto::ptoctl

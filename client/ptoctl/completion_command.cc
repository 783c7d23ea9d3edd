#include <string>

#include "CLI/CLI.hpp"
#include "client/ptoctl/bash_completion.h"
#include "client/ptoctl/commands.h"

namespace pto::ptoctl {

void AddCompletionCommand(CLI::App& app, Context& context) {
  CLI::App* completion = app.add_subcommand("completion", "Completion for a shell");
  completion->require_subcommand(1);
  CLI::App* bash = completion->add_subcommand("bash", "Print a script for bash");
  bash->footer(
      "Examples:\n  source <(ptoctl completion bash)\n"
      "  ptoctl completion bash > /etc/bash_completion.d/ptoctl");
  bash->callback([&app, &context] {
    context.action = [&app, &context] {
      context.out << BashCompletion(app);
      return absl::OkStatus();
    };
  });
}

}  // namespace pto::ptoctl

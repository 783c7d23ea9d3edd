#pragma once

#include "client/ptoctl/context.h"

namespace CLI {
class App;
}  // namespace CLI

namespace pto::ptoctl {

// Each adds the commands of one noun to `app`. What a command line asks for ends up in
// `context.action`, to be run when the whole line was understood. `context` must outlive `app`.
void AddNodeCommand(CLI::App& app, Context& context);
void AddChipsCommand(CLI::App& app, Context& context);
void AddSessionsCommand(CLI::App& app, Context& context);
void AddDomainsCommand(CLI::App& app, Context& context);
void AddKernelsCommand(CLI::App& app, Context& context);
void AddGraphsCommand(CLI::App& app, Context& context);
void AddRunsCommand(CLI::App& app, Context& context);
void AddScenariosCommand(CLI::App& app, Context& context);
void AddTopCommand(CLI::App& app, Context& context);
void AddErrorsCommand(CLI::App& app, Context& context);
void AddCompletionCommand(CLI::App& app, Context& context);

// Verbs with files of their own.
void AddLeaseCommand(CLI::App& chips, Context& context);
void AddSubmitCommand(CLI::App& runs, Context& context);
void AddStreamCommand(CLI::App& runs, Context& context);
void AddEventsCommand(CLI::App& runs, Context& context);
void AddTraceCommand(CLI::App& runs, Context& context);
void AddExplainCommand(CLI::App& runs, Context& context);

}  // namespace pto::ptoctl

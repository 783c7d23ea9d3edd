#pragma once

#include "client/ptoctl/command.h"
#include "client/ptoctl/context.h"

namespace pto::ptoctl {

// Each function adds one command group to `root`, the program. `context` must outlive `root`.
void AddNodeCommand(Command& root, Context& context);
void AddConfigCommand(Command& root, Context& context);
void AddChipsCommand(Command& root, Context& context);
void AddSessionsCommand(Command& root, Context& context);
void AddDomainsCommand(Command& root, Context& context);
void AddKernelsCommand(Command& root, Context& context);
void AddHostsCommand(Command& root, Context& context);
void AddGraphsCommand(Command& root, Context& context);
void AddRunsCommand(Command& root, Context& context);
void AddScenariosCommand(Command& root, Context& context);
void AddUsageCommand(Command& root, Context& context);
void AddTopCommand(Command& root, Context& context);
void AddContextCommand(Command& root, Context& context);
void AddErrorsCommand(Command& root, Context& context);
void AddDoctorCommand(Command& root, Context& context);
void AddCompletionCommand(Command& root, Context& context);

// Subcommands with their own source files.
void AddKernelNewCommand(Command& kernels, Context& context);
void AddKernelCheckCommand(Command& kernels, Context& context);
void AddKernelRegisterCommand(Command& kernels, Context& context);
void AddLeaseCommand(Command& chips, Context& context);
void AddSubmitCommand(Command& runs, Context& context);
void AddStreamCommand(Command& runs, Context& context);
void AddEventsCommand(Command& runs, Context& context);
void AddTraceCommand(Command& runs, Context& context);
void AddExplainCommand(Command& runs, Context& context);

}  // namespace pto::ptoctl

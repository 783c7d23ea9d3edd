#include <memory>
#include <string>

#include "client/ptoctl/commands.h"
#include "client/ptoctl/resolve_run.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct ExplainOptions {
  std::string run;
  uint32_t limit = 0;
};

absl::Status Explain(const Context& context, const ExplainOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::string name, ResolveRun(client, options.run));
  PTO_ASSIGN_OR_RETURN(const v1::ExplainRunResponse explanation,
                       client.ExplainRun(name, options.limit));
  context.MakePrinter()->Explanation(explanation);
  return absl::OkStatus();
}

}  // namespace

void AddExplainCommand(Command& runs, Context& context) {
  Command& explain = runs.AddCommand("explain", "Explain why a run has not ended");
  auto options = std::make_shared<ExplainOptions>();
  explain.AddOption("RUN", &options->run, "Run name (sessions/s1/runs/r1) or id (r1)").Required();
  explain
      .AddOption("--limit", &options->limit, "Maximum number of blocked tasks to show (default 16)")
      .Range(0, 1000);
  explain.Footer(
      "Examples:\n  ptoctl runs explain r1\n  ptoctl runs explain sessions/s1/runs/r1 -o json");
  explain.Action([&context, options] { return Explain(context, *options); });
}

}  // namespace pto::ptoctl

#include <memory>
#include <string>
#include <vector>

#include "client/ptoctl/commands.h"
#include "client/ptoctl/resolve_run.h"
#include "client/ptoctl/write_trace.h"
#include "client/trace/chrome_trace.h"
#include "client/trace/collect.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct TraceOptions {
  std::string run;
  std::vector<std::string> files;
  uint64_t max_edges = trace::ChromeOptions().max_edges;
};

absl::Status Trace(const Context& context, const TraceOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::string name, ResolveRun(client, options.run));
  trace::CollectOptions collect;
  if (context.WaitTimeout() < absl::InfiniteDuration()) collect.timeout = context.WaitTimeout();
  PTO_ASSIGN_OR_RETURN(const trace::RunTrace trace, trace::CollectTrace(client, name, collect));
  for (const std::string& file : options.files) {
    PTO_RETURN_IF_ERROR(WriteTrace(trace, file, options.max_edges));
    context.err << "ptoctl: " << file << ": " << trace.tasks.size() << " tasks, "
                << trace.edges.size() << " edges\n";
  }
  for (const std::string& note : trace.notes) context.err << "ptoctl: note: " << note << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddTraceCommand(Command& runs, Context& context) {
  Command& trace = runs.AddCommand("trace", "Write a timeline of the tasks of a run");
  auto options = std::make_shared<TraceOptions>();
  trace.AddOption("RUN", &options->run, "Run name (sessions/s1/runs/r1) or id (r1)").Required();
  trace
      .AddOption("--output,-o,--svg,--html", &options->files,
                 "File to write: .json (for ui.perfetto.dev), .svg or .html; can be repeated")
      .Required()
      .Repeated()
      .Check(CheckTraceName);
  trace.AddOption("--max-edges", &options->max_edges,
                  "Maximum number of edges in a .json file (default 20000)");
  trace.Footer(
      "For a run that has not ended, the trace shows what its tasks wait for. The daemon keeps\n"
      "task names, kernels and edges for the newest runs, and for all runs of a graph that is\n"
      "still registered.\n\nExamples:\n"
      "  ptoctl runs trace r1 -o trace.json\n"
      "  ptoctl runs trace sessions/s1/runs/r1 --svg r1.svg --html r1.html");
  trace.Action([&context, options] { return Trace(context, *options); });
}

}  // namespace pto::ptoctl

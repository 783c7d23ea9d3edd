#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/job/job_file.h"
#include "client/job/prepared_job.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/dot.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

// The id of the temporary graph, which is deleted when the command ends.
constexpr char kGraphId[] = "dot";

struct DotOptions {
  std::string graph;
  uint64_t max_tasks = 1000;
};

// Compiles the graph of a job file in a temporary session, without creating its buffers.
absl::StatusOr<v1::Graph> Compile(Client& client, const job::PreparedJob& job, uint64_t max_tasks) {
  PTO_ASSIGN_OR_RETURN(Session session, client.CreateSession());
  PTO_ASSIGN_OR_RETURN(const v1::Graph graph, session.Register(kGraphId, job.graph));
  PTO_ASSIGN_OR_RETURN(v1::Graph compiled, client.GetGraphStructure(graph.name(), max_tasks));
  PTO_RETURN_IF_ERROR(session.Close());
  // The file name means more to the user than the name of the temporary session.
  compiled.set_name(job.file.places.file());
  return compiled;
}

absl::Status Dot(Context& context, const DotOptions& options) {
  v1::Graph graph;
  std::vector<v1::Kernel> kernels;
  if (absl::StartsWith(options.graph, "sessions/")) {
    PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
    PTO_ASSIGN_OR_RETURN(graph, client.GetGraphStructure(options.graph, options.max_tasks));
    PTO_ASSIGN_OR_RETURN(kernels, client.ListKernels());
  } else {
    PTO_ASSIGN_OR_RETURN(job::JobFile file, job::LoadJobFile(options.graph));
    PTO_ASSIGN_OR_RETURN(const job::PreparedJob job, job::PrepareJob(std::move(file)));
    context.places = job.file.places;
    PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
    PTO_ASSIGN_OR_RETURN(graph, Compile(client, job, options.max_tasks));
    PTO_ASSIGN_OR_RETURN(kernels, client.ListKernels());
  }
  context.out << FormatDot(graph, kernels);
  const auto drawn = static_cast<uint64_t>(graph.structure().kernel_size());
  if (drawn < graph.task_count()) {
    context.err << "ptoctl: note: only the first " << drawn << " of " << graph.task_count()
                << " tasks are drawn; increase --max-tasks to draw more\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddGraphsCommand(Command& root, Context& context) {
  Command& graphs = root.AddCommand("graphs", "Inspect compiled graphs");
  Command& dot =
      graphs.AddCommand("dot", "Print a graph and its dependencies in Graphviz DOT format");
  auto options = std::make_shared<DotOptions>();
  dot.AddOption("FILE", &options->graph,
                "Job file or name of a registered graph (sessions/s1/graphs/g1)")
      .Required();
  dot.AddOption("--max-tasks", &options->max_tasks,
                "Maximum number of tasks to draw (default 1000)")
      .Range(1, 10'000'000);
  dot.Footer(
      "Examples:\n  ptoctl graphs dot client/examples/ffn.txtpb | dot -Tsvg > ffn.svg\n"
      "  ptoctl graphs dot sessions/s1/graphs/g1 --max-tasks 50");
  dot.Action([&context, options] { return Dot(context, *options); });
}

}  // namespace pto::ptoctl

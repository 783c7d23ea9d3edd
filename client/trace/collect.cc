#include "client/trace/collect.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "client/run_state.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::trace {
namespace {

// A stream that is idle for this long has no more events.
constexpr absl::Duration kIdle = absl::Milliseconds(300);

// The maximum that the daemon describes at once.
constexpr uint32_t kMaxUnfinished = 1000;

// Whether a picture is possible without this data: the daemon keeps tasks only for a while, and an
// older daemon does not return them.
bool IsGone(const absl::Status& status) {
  return ReasonOf(status) == reason::kGraphUnknown.name || absl::IsUnimplemented(status);
}

absl::Status ReadEvents(Client& client, Sources* sources, absl::Time deadline) {
  const std::string& run = sources->run.name();
  const absl::string_view session_name = absl::string_view(run).substr(0, run.find("/runs/"));
  PTO_ASSIGN_OR_RETURN(Session session, client.AttachSession(session_name));
  WatchOptions watch;
  watch.runs = {run};
  watch.until_run_ends = run;
  PTO_ASSIGN_OR_RETURN(EventStream stream, session.Watch(watch));
  const bool ended = IsFinal(sources->run.state());
  while (stream.through_sequence() < sources->run.as_of_sequence()) {
    const absl::Duration left = deadline - absl::Now();
    absl::StatusOr<absl::optional<v1::EventBatch>> batch =
        stream.Next(ended ? left : std::min(left, kIdle));
    if (!batch.ok()) {
      if (!ended && ReasonOf(batch.status()) == reason::kClientTimeout.name) break;
      return batch.status();
    }
    if (!batch->has_value()) break;
    for (v1::Event& event : *(*batch)->mutable_events()) {
      sources->events.push_back(std::move(event));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunTrace> CollectTrace(Client& client, const std::string& run,
                                      const CollectOptions& options) {
  const absl::Time deadline = absl::Now() + options.timeout;
  Sources sources;
  PTO_ASSIGN_OR_RETURN(sources.run, client.GetRun(run));
  PTO_ASSIGN_OR_RETURN(sources.chips, client.ListChips());
  PTO_ASSIGN_OR_RETURN(sources.kernels, client.ListKernels());
  PTO_RETURN_IF_ERROR(ReadEvents(client, &sources, deadline));
  absl::StatusOr<v1::RunGraph> graph =
      client.GetRunGraph(run, options.max_tasks, deadline - absl::Now());
  if (graph.ok()) {
    sources.graph = *std::move(graph);
  } else if (!IsGone(graph.status())) {
    return graph.status();
  }
  if (!IsFinal(sources.run.state())) {
    PTO_ASSIGN_OR_RETURN(sources.explained,
                         client.ExplainRun(run, kMaxUnfinished, deadline - absl::Now()));
  }
  return MakeTrace(sources);
}

}  // namespace pto::trace

#include <algorithm>
#include <memory>
#include <string>

#include "client/ptoctl/commands.h"
#include "client/ptoctl/exit_code.h"
#include "client/ptoctl/interrupt.h"
#include "client/ptoctl/resolve_run.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct EventsOptions {
  std::string run;
  uint64_t after = 0;
  bool follow = false;
};

// Without --follow, an event stream that is idle for this long has ended. With --follow, the
// interval between checks for Ctrl-C.
constexpr absl::Duration kSlice = absl::Milliseconds(300);

absl::Status Events(const Context& context, const EventsOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::string name, ResolveRun(client, options.run));
  PTO_ASSIGN_OR_RETURN(const std::string session_name, SessionOfRun(name));
  PTO_ASSIGN_OR_RETURN(const v1::Run run, client.GetRun(name));
  if (IsFinal(run.state()) && options.after >= run.as_of_sequence()) return absl::OkStatus();
  PTO_ASSIGN_OR_RETURN(Session session, client.AttachSession(session_name));
  WatchOptions watch;
  watch.after_sequence = options.after;
  watch.runs = {name};
  watch.until_run_ends = name;
  PTO_ASSIGN_OR_RETURN(EventStream stream, session.Watch(watch));

  const Interrupt interrupt;
  const std::unique_ptr<Printer> printer = context.MakePrinter();
  const absl::Time deadline = absl::Now() + context.WaitTimeout();
  while (!interrupt.seen()) {
    absl::StatusOr<absl::optional<v1::EventBatch>> batch =
        stream.Next(std::min(kSlice, deadline - absl::Now()));
    if (!batch.ok()) {
      if (!IsTimeout(batch.status())) return batch.status();
      if (absl::Now() >= deadline) {
        return Error(reason::kClientTimeout, "timed out before the run ended");
      }
      if (options.follow && !IsFinal(run.state())) continue;
      break;
    }
    if (!batch->has_value()) break;
    for (const v1::Event& event : (*batch)->events()) printer->Event(event, nullptr);
    if (!options.follow && stream.through_sequence() >= run.as_of_sequence()) break;
  }
  printer->EndOfEvents();
  return absl::OkStatus();
}

}  // namespace

void AddEventsCommand(Command& runs, Context& context) {
  Command& events = runs.AddCommand("events", "Show the events of a run");
  auto options = std::make_shared<EventsOptions>();
  events.AddOption("RUN", &options->run, "Run name (sessions/s1/runs/r1) or id (r1)").Required();
  events.AddOption("--after", &options->after, "Show only events after this sequence number");
  events.AddFlag("--follow,-f", &options->follow, "Keep printing events until the run ends");
  events.Footer(
      "Examples:\n  ptoctl runs events r1 --follow\n  ptoctl runs events r1 --after 120 -o json");
  events.Action([&context, options] { return Events(context, *options); });
}

}  // namespace pto::ptoctl

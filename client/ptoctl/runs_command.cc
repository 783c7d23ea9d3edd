#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/exit_code.h"
#include "client/ptoctl/progress_line.h"
#include "client/ptoctl/resolve_run.h"
#include "client/ptoctl/stall_notice.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

// How often to check the progress of a run.
constexpr absl::Duration kSlice = absl::Milliseconds(500);

struct ListOptions {
  std::string session = "-";
  bool active = false;
  uint64_t limit = 0;
};

struct RunOptions {
  std::string run;
  std::string reason;
};

absl::Status List(const Context& context, const ListOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  const std::string session = absl::StrContains(options.session, '/')
                                  ? options.session
                                  : absl::StrCat("sessions/", options.session);
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Run> list,
                       client.ListRuns(session, options.active, options.limit));
  context.MakePrinter()->Runs(list);
  return absl::OkStatus();
}

absl::Status Get(const Context& context, const RunOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::string name, ResolveRun(client, options.run));
  PTO_ASSIGN_OR_RETURN(const v1::Run run, client.GetRun(name));
  context.MakePrinter()->Run(run);
  return absl::OkStatus();
}

absl::StatusOr<v1::Run> Await(const Context& context, Client& client, const std::string& name) {
  ProgressLine progress(context.err, context.err_is_terminal && !context.quiet);
  StallNotice stall(context, client, name);
  const absl::Time deadline = absl::Now() + context.WaitTimeout();
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    absl::StatusOr<v1::Run> run = client.WaitRun(name, std::min(left, kSlice));
    if (run.ok() || !IsTimeout(run.status())) return run;
    if (left <= kSlice) {
      return stall.NotInTime(absl::StrCat("timed out waiting for ", name))
          .Hint("the run continues; wait again or increase --timeout");
    }
    // WaitRun may time out although the run has ended, so ask for the state too.
    PTO_ASSIGN_OR_RETURN(v1::Run now, client.GetRun(name, std::min(left, context.CallTimeout())));
    if (IsFinal(now.state())) return now;
    progress.Update(now.tasks_done(), now.tasks_total());
    stall.Look(now, absl::Now(), progress);
  }
}

absl::Status Wait(const Context& context, const RunOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::string name, ResolveRun(client, options.run));
  PTO_ASSIGN_OR_RETURN(const v1::Run run, Await(context, client, name));
  context.MakePrinter()->Run(run);
  return StatusOf(run);
}

absl::Status Cancel(const Context& context, const RunOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::string name, ResolveRun(client, options.run));
  PTO_ASSIGN_OR_RETURN(const v1::Run run, client.CancelRun(name, options.reason));
  context.MakePrinter()->Run(run);
  return absl::OkStatus();
}

// Adds a subcommand that takes one run.
Command& AddVerb(Command& runs, Context& context, const std::string& name,
                 const std::string& description, const std::shared_ptr<RunOptions>& options,
                 absl::Status (*action)(const Context&, const RunOptions&)) {
  Command& verb = runs.AddCommand(name, description);
  verb.AddOption("RUN", &options->run, "Run name (sessions/s1/runs/r1) or id (r1)").Required();
  verb.Footer(absl::StrCat("Examples:\n  ptoctl runs ", name, " r1\n  ptoctl runs ", name,
                           " sessions/s1/runs/r1 -o json"));
  verb.Action([&context, options, action] { return action(context, *options); });
  return verb;
}

}  // namespace

void AddRunsCommand(Command& root, Context& context) {
  Command& runs = root.AddCommand("runs", "Submit, list, cancel and inspect runs");
  AddSubmitCommand(runs, context);
  AddStreamCommand(runs, context);

  Command& ls = runs.AddCommand("ls", "List runs, newest first");
  auto list = std::make_shared<ListOptions>();
  ls.AddOption("--session", &list->session,
               "List only runs of this session (default: all sessions)");
  ls.AddFlag("--active", &list->active, "List only runs that have not ended");
  ls.AddOption("--limit", &list->limit, "Maximum number of runs to list (0 = no limit; default 0)");
  ls.Footer("Examples:\n  ptoctl runs ls --active\n  ptoctl runs ls --session s1 --limit 10");
  ls.Action([&context, list] { return List(context, *list); });

  auto options = std::make_shared<RunOptions>();
  AddVerb(runs, context, "get", "Show details of a run", options, &Get);
  AddVerb(runs, context, "wait", "Wait for a run to end and return an error if it failed", options,
          &Wait);
  Command& cancel =
      AddVerb(runs, context, "cancel", "Request cancellation of a run", options, &Cancel);
  cancel.AddOption("--reason", &options->reason, "Reason to include in the error of the run");
  AddEventsCommand(runs, context);
  AddTraceCommand(runs, context);
  AddExplainCommand(runs, context);
}

}  // namespace pto::ptoctl

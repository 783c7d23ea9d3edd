#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/interrupt.h"
#include "google/protobuf/util/json_util.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

// How often a drain is asked for its progress.
constexpr absl::Duration kStep = absl::Milliseconds(250);

struct DrainOptions {
  std::string reason;
  absl::Duration grace;
  bool wait = false;
};

absl::Status Drain(Context& context, const DrainOptions& options) {
  const Interrupt interrupt;
  const absl::Time until = absl::Now() + context.WaitTimeout();
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(v1::DrainNodeResponse progress,
                       client.DrainNode(options.reason, options.grace));
  while (options.wait && progress.active_run_count() > 0) {
    if (interrupt.seen()) return Error(reason::kInterrupted, "interrupted; the drain goes on");
    if (absl::Now() >= until) {
      return Error(reason::kClientTimeout,
                   absl::StrCat(progress.active_run_count(), " runs have not ended"))
          .Hint("see what they wait for with `ptoctl runs ls --active`");
    }
    absl::SleepFor(kStep);
    // Asked again, it tells how far it is.
    PTO_ASSIGN_OR_RETURN(progress, client.DrainNode(options.reason, options.grace));
  }
  if (context.output == "json") {
    std::string json;
    google::protobuf::util::JsonPrintOptions format;
    format.always_print_primitive_fields = true;
    if (google::protobuf::util::MessageToJsonString(progress, &json, format).ok()) {
      context.out << json << '\n';
    }
  } else if (!context.quiet) {
    context.out << (progress.active_run_count() == 0
                        ? "drained\n"
                        : absl::StrCat("draining, ", progress.active_run_count(),
                                       " active runs left\n"));
  }
  return absl::OkStatus();
}

void AddDrainCommand(Command& node, Context& context) {
  Command& drain =
      node.AddCommand("drain", "Refuse new sessions and runs, and let the active ones end");
  auto options = std::make_shared<DrainOptions>();
  drain.AddOption("--reason", &options->reason, "Why, for the log and for clients");
  drain.AddOption("--grace", &options->grace,
                  "Time until the remaining runs are cancelled (default: as configured)");
  drain.AddFlag("-w,--wait", &options->wait, "Wait until no run is left, at most --timeout");
  drain.Footer(
      "A drain cannot be taken back; the daemon accepts work again after a restart.\n\n"
      "Examples:\n  ptoctl node drain --wait\n"
      "  ptoctl node drain --reason maintenance --grace 10m");
  drain.Action([&context, options] { return Drain(context, *options); });
}

}  // namespace

void AddNodeCommand(Command& root, Context& context) {
  Command& node = root.AddCommand("node", "Show or drain the daemon");
  AddDrainCommand(node, context);
  node.AddCommand("info", "Show the version, state and limits of the daemon")
      .Footer("Examples:\n  ptoctl node info\n  ptoctl node info -o json")
      .Action([&context]() -> absl::Status {
        PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
        PTO_ASSIGN_OR_RETURN(const v1::Node reply, client.GetNode());
        context.MakePrinter()->Node(reply);
        return absl::OkStatus();
      });
}

}  // namespace pto::ptoctl

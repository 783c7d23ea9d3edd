#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/ptoctl/commands.h"
#include "proto/status/status_proto.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct ResetOptions {
  std::vector<std::string> chips;
  bool force = false;
};

absl::Status Reset(const Context& context, const ResetOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  std::vector<v1::Chip> list;
  absl::Status error;
  for (const std::string& chip : options.chips) {
    absl::StatusOr<v1::Chip> reset = client.ResetChip(
        absl::StrContains(chip, '/') ? chip : absl::StrCat("chips/", chip), options.force);
    if (!reset.ok()) {
      error = reset.status();
      break;
    }
    // One that is still faulted was not helped by it.
    if (reset->state() == v1::Chip::FAULTED) error = StatusFromProto(reset->fault());
    list.push_back(*std::move(reset));
  }
  if (!list.empty()) context.MakePrinter()->Chips(list);
  return error;
}

void AddResetCommand(Command& chips, Context& context) {
  Command& reset = chips.AddCommand("reset", "Reset chips, and use them again if they are well");
  auto options = std::make_shared<ResetOptions>();
  reset.AddOption("CHIP", &options->chips, "Chips, as chips/2 or 2").Required();
  reset.AddFlag("--force", &options->force,
                "Fail the runs that use them; without it a chip with runs is refused");
  reset.Footer(
      "A chip that is FAULTED comes back by itself when it is well again; this tries at once.\n"
      "Buffers keep their contents. Ends with 1 when a chip is still FAULTED afterwards.\n\n"
      "Examples:\n  ptoctl chips reset 2\n  ptoctl chips reset chips/0 chips/1 --force");
  reset.Action([&context, options] { return Reset(context, *options); });
}

}  // namespace

void AddChipsCommand(Command& root, Context& context) {
  Command& chips = root.AddCommand("chips", "The chips of the node");
  chips.AddCommand("ls", "List chips with their state, cores and memory")
      .Footer(
          "What is wrong with a chip that is FAULTED is its `fault` in -o json.\n\n"
          "Examples:\n  ptoctl chips ls\n  ptoctl chips ls -q\n  ptoctl chips ls -o json")
      .Action([&context]() -> absl::Status {
        PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
        PTO_ASSIGN_OR_RETURN(const std::vector<v1::Chip> list, client.ListChips());
        context.MakePrinter()->Chips(list);
        return absl::OkStatus();
      });
  AddResetCommand(chips, context);
  AddLeaseCommand(chips, context);
}

}  // namespace pto::ptoctl

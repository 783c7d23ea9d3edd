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
    // A chip that is still FAULTED after the reset is an error.
    if (reset->state() == v1::Chip::FAULTED) error = StatusFromProto(reset->fault());
    list.push_back(*std::move(reset));
  }
  if (!list.empty()) context.MakePrinter()->Chips(list);
  return error;
}

void AddResetCommand(Command& chips, Context& context) {
  Command& reset =
      chips.AddCommand("reset", "Reset chips and return them to service if they are healthy");
  auto options = std::make_shared<ResetOptions>();
  reset.AddOption("CHIP", &options->chips, "Chips to reset, for example 2 or chips/2").Required();
  reset.AddFlag("--force", &options->force,
                "Fail the runs that use the chips (default: refuse to reset a chip in use)");
  reset.Footer(
      "A FAULTED chip returns to service by itself once it is healthy; this command retries\n"
      "immediately. Buffers keep their contents. The exit code is 1 if a chip is still FAULTED.\n\n"
      "Examples:\n  ptoctl chips reset 2\n  ptoctl chips reset chips/0 chips/1 --force");
  reset.Action([&context, options] { return Reset(context, *options); });
}

}  // namespace

void AddChipsCommand(Command& root, Context& context) {
  Command& chips = root.AddCommand("chips", "List, reset and lease chips");
  chips.AddCommand("ls", "List chips with their state, cores and memory")
      .Footer(
          "With -o json, the `fault` field of a FAULTED chip contains its error.\n\n"
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

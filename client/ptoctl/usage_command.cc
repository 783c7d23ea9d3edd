#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/duration_text.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct UsageOptions {
  std::string by = "principal";
  std::string since;
  std::string principal;
};

// As ParseDurationText, and days: `7d`.
bool ParsePeriod(absl::string_view text, absl::Duration* period) {
  double days = 0;
  if (!absl::ConsumeSuffix(&text, "d")) return ParseDurationText(text, period);
  if (!absl::SimpleAtod(text, &days) || !(days > 0) || days > 1e6) return false;
  *period = days * absl::Hours(24);
  return true;
}

absl::Status Show(const Context& context, const UsageOptions& options) {
  absl::Time begin = absl::InfinitePast();
  if (!options.since.empty()) {
    absl::Duration period;
    if (!ParsePeriod(options.since, &period)) {
      return Error(reason::kUsage, absl::StrCat("--since: expected a period such as 7d, 12h or "
                                                "30m, not '",
                                                options.since, "'"));
    }
    begin = absl::Now() - period;
  }
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Usage> usage,
                       client.ListUsage(begin, absl::InfiniteFuture(), options.principal));
  context.MakePrinter()->Usage(usage);
  return absl::OkStatus();
}

}  // namespace

void AddUsageCommand(Command& root, Context& context) {
  Command& usage = root.AddCommand("usage", "Show what principals have used");
  auto options = std::make_shared<UsageOptions>();
  usage.AddOption("--by", &options->by, "What to add it up by (default principal)")
      .OneOf({"principal"});
  usage.AddOption("--since", &options->since,
                  "Only what was used since then, in whole hours, for example 7d or 12h");
  usage.AddOption("--principal", &options->principal, "Only this principal, for example uid-1000");
  usage.Footer(
      "Readers and operators see everybody, others only themselves.\n\n"
      "Examples:\n  ptoctl usage --by principal --since 7d\n  ptoctl usage -o json");
  usage.Action([&context, options] { return Show(context, *options); });
}

}  // namespace pto::ptoctl

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/job/chip_list.h"
#include "client/ptoctl/child_command.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/interrupt.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

// If ptoctl is killed, the daemon frees the chips after this time.
constexpr absl::Duration kTtl = absl::Seconds(10);
// How often to check for an interrupt while waiting.
constexpr absl::Duration kStep = absl::Milliseconds(250);

struct LeaseOptions {
  uint32_t count = 1;
  std::vector<std::string> command;
};

// Waits for the chips and reports the position in the queue to the user.
absl::StatusOr<v1::ChipLease> WaitForChips(const Context& context, Session& session,
                                           uint32_t count) {
  const Interrupt interrupt;
  const absl::Time until = absl::Now() + context.WaitTimeout();
  int64_t told = -1;
  while (true) {
    const absl::Duration left = until - absl::Now();
    PTO_ASSIGN_OR_RETURN(v1::ChipLease lease, session.LeaseChips(count, std::min(left, kStep)));
    if (lease.state() == v1::ChipLease::GRANTED) return lease;
    if (interrupt.seen()) return Error(reason::kInterrupted, "interrupted while waiting for chips");
    if (absl::Now() >= until) {
      return Error(reason::kClientTimeout, absl::StrCat("timed out waiting for ", count, " chips; ",
                                                        lease.position(), " requests are ahead"))
          .With("position", lease.position())
          .Hint("see who holds the chips with `ptoctl chips ls -o json`, or increase --timeout");
    }
    if (told != lease.position() && !context.quiet) {
      told = lease.position();
      context.err << "ptoctl: waiting for " << count << " chips, " << told
                  << " requests are ahead\n";
    }
  }
}

absl::StatusOr<std::string> ChipList(const v1::ChipLease& lease) {
  std::vector<uint32_t> chips;
  for (const std::string& name : lease.chips()) {
    uint32_t index = 0;
    if (!absl::SimpleAtoi(absl::StripPrefix(name, "chips/"), &index)) {
      return Error(reason::kInternal,
                   absl::StrCat("the daemon leased '", name, "', which is not a chip name"));
    }
    chips.push_back(index);
  }
  return job::FormatChipList(chips);
}

absl::Status Lease(Context& context, const LeaseOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  SessionOptions session_options;
  session_options.ttl = kTtl;
  session_options.labels = {{"ptoctl", "chips lease"}};
  PTO_ASSIGN_OR_RETURN(Session session, client.CreateSession(session_options));
  PTO_ASSIGN_OR_RETURN(const v1::ChipLease lease, WaitForChips(context, session, options.count));
  PTO_ASSIGN_OR_RETURN(const std::string chips, ChipList(lease));
  PTO_ASSIGN_OR_RETURN(const Context::Target target, context.FindTarget());
  std::map<std::string, std::string> variables = {
      {"PTOD_CHIPS", chips}, {"PTOD_ADDRESS", client.address()}, {"PTOD_LEASE", session.name()}};
  for (const auto& [name, value] : {std::pair("PTOD_TLS_CA", target.tls.ca_file),
                                    std::pair("PTOD_TLS_CERT", target.tls.cert_file),
                                    std::pair("PTOD_TLS_KEY", target.tls.key_file),
                                    std::pair("PTOD_TLS_SERVER_NAME", target.tls.server_name),
                                    std::pair("PTOD_TOKEN_FILE", target.token_file)}) {
    if (!value.empty()) variables[name] = value;
  }
  PTO_ASSIGN_OR_RETURN(const int code, RunChild(options.command, variables));
  if (const absl::Status lost = session.status(); !lost.ok()) {
    context.err << "ptoctl: warning: the lease was lost while the command ran: " << lost.message()
                << "\n";
  }
  context.exit_code = code;
  return absl::OkStatus();
}

}  // namespace

void AddLeaseCommand(Command& chips, Context& context) {
  Command& lease =
      chips.AddCommand("lease", "Lease chips and run a command with exclusive access to them");
  auto options = std::make_shared<LeaseOptions>();
  lease.AddOption("-n,--count", &options->count, "Number of chips to lease (default 1)").Positive();
  lease.AddOption("COMMAND", &options->command, "Command to run and its arguments, after --")
      .Required();
  lease.Footer(
      "Waits until the chips are free. Sets PTOD_CHIPS (for example 0-3), PTOD_ADDRESS and\n"
      "PTOD_LEASE in the environment of the command. Returns the exit code of the command, or 4\n"
      "if the chips were not free within --timeout.\n\n"
      "Examples:\n  ptoctl chips lease -n 4 -- make test\n"
      "  ptoctl chips lease -n 1 --timeout 10m -- sh -c 'ptoctl runs submit job.json'");
  lease.Action([&context, options] { return Lease(context, *options); });
}

}  // namespace pto::ptoctl

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "client/job/chip_list.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/resolve_domain.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

// The options of all subcommands. Each subcommand uses some of them.
struct DomainOptions {
  std::string name;
  std::vector<std::string> names;
  std::string session;
  std::string chips;
  std::vector<std::string> buffers;
  uint32_t signals = 0;
  uint64_t window_bytes = 0;
  std::string reason;
  uint32_t rank = 0;
  uint32_t signal = 0;
  int64_t value = 0;
  bool add = false;
  absl::optional<uint32_t> only_rank;
};
using Verb = absl::Status (*)(const Context&, const DomainOptions&);

// Parses NAME:TYPE:COUNT, for example `x:F32:1024`.
absl::StatusOr<WindowBufferSpec> ParseBuffer(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  WindowBufferSpec buffer;
  if (parts.size() != 3 || !v1::DType_Parse(parts[1], &buffer.dtype) ||
      !absl::SimpleAtoi(parts[2], &buffer.count)) {
    return Error(
        reason::kUsage,
        absl::StrCat("expected NAME:TYPE:COUNT, for example x:F32:1024, got '", text, "'"));
  }
  buffer.name = parts[0];
  return buffer;
}

absl::Status Create(const Context& context, const DomainOptions& options) {
  DomainSpec spec;
  spec.id = options.name;
  absl::StatusOr<std::vector<uint32_t>> chips = job::ParseChipList(options.chips);
  if (!chips.ok()) {
    return Error(reason::kUsage, absl::StrCat("--chips: ", chips.status().message()));
  }
  spec.chips = *std::move(chips);
  for (const std::string& text : options.buffers) {
    PTO_ASSIGN_OR_RETURN(WindowBufferSpec buffer, ParseBuffer(text));
    spec.buffers.push_back(std::move(buffer));
  }
  spec.signal_count = options.signals;
  spec.window_bytes = options.window_bytes;
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(Session session,
                       client.AttachSession(absl::StrContains(options.session, '/')
                                                ? options.session
                                                : absl::StrCat("sessions/", options.session)));
  PTO_ASSIGN_OR_RETURN(const Domain domain, session.CreateDomain(spec));
  context.MakePrinter()->Domain(domain.info());
  return absl::OkStatus();
}

absl::Status List(const Context& context, const DomainOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Domain> list, ListDomains(client, options.session));
  context.MakePrinter()->Domains(list);
  return absl::OkStatus();
}

absl::Status Show(const Context& context, const DomainOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const Domain domain, OpenDomain(client, options.name));
  context.MakePrinter()->Domain(domain.info());
  return absl::OkStatus();
}

absl::Status Revoke(const Context& context, const DomainOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const Domain domain, OpenDomain(client, options.name));
  PTO_ASSIGN_OR_RETURN(const v1::Domain revoked, domain.Revoke(options.reason));
  context.MakePrinter()->Domain(revoked);
  return absl::OkStatus();
}

absl::Status Remove(const Context& context, const DomainOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  // An error for one domain must not keep the others from being deleted.
  absl::Status first;
  std::vector<v1::Domain> removed;
  for (const std::string& name : options.names) {
    const absl::StatusOr<Domain> domain = OpenDomain(client, name);
    const absl::Status status = domain.ok() ? domain->Delete() : domain.status();
    if (status.ok()) {
      removed.push_back(domain->info());
    } else if (first.ok()) {
      first = status;
    }
  }
  context.MakePrinter()->Domains(removed);
  return first;
}

absl::Status Notify(const Context& context, const DomainOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const Domain domain, OpenDomain(client, options.name));
  PTO_ASSIGN_OR_RETURN(
      const uint64_t value,
      domain.Notify(options.rank, options.signal, static_cast<uint64_t>(options.value),
                    options.add ? v1::NotifyRequest::ADD : v1::NotifyRequest::SET));
  v1::NotifyResponse response;
  response.set_value(value);
  context.MakePrinter()->Notified(response);
  return absl::OkStatus();
}

absl::Status Signals(const Context& context, const DomainOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const Domain domain, OpenDomain(client, options.name));
  const uint32_t first = options.only_rank.value_or(0);
  const uint32_t end = options.only_rank.has_value() ? first + 1 : domain.ranks();
  std::vector<v1::ReadSignalsResponse> ranks;
  for (uint32_t rank = first; rank < end; ++rank) {
    PTO_ASSIGN_OR_RETURN(const std::vector<uint64_t> values, domain.ReadSignals(rank));
    ranks.emplace_back().mutable_values()->Add(values.begin(), values.end());
  }
  context.MakePrinter()->Signals(domain.info(), first, ranks);
  return absl::OkStatus();
}

Command& AddVerb(Command& domains, Context& context, const char* name, const char* description,
                 const char* examples, const std::shared_ptr<DomainOptions>& options, Verb action) {
  Command& verb = domains.AddCommand(name, description);
  verb.Footer(absl::StrCat("Examples:\n  ptoctl domains ", name, " ", examples));
  verb.Action([&context, options, action] { return action(context, *options); });
  return verb;
}

void AddName(Command& verb, DomainOptions& options) {
  verb.AddOption("DOMAIN", &options.name, "Domain name (sessions/s1/domains/d1) or id (d1)")
      .Required();
}

}  // namespace

void AddDomainsCommand(Command& root, Context& context) {
  Command& domains = root.AddCommand("domains", "Manage communication domains and their signals");
  auto options = std::make_shared<DomainOptions>();

  Command& create =
      AddVerb(domains, context, "create", "Create a domain in an existing session",
              "d1 --session s1 --chips 0-3 --buffer x:F32:1024 --signals 2", options, &Create);
  create
      .AddOption("ID", &options->name,
                 "Id of the domain: 1 to 63 characters from a-z, 0-9 and -, starting with a letter")
      .Required();
  create.AddOption("--session", &options->session, "Session that will own the domain").Required();
  create.AddOption("--chips", &options->chips, "Chips in rank order, for example 0-3 or 2,0")
      .Required();
  create.AddOption("--buffer", &options->buffers,
                   "Buffer in each window, as NAME:TYPE:COUNT; can be repeated");
  create.AddOption("--signals", &options->signals, "Number of signals per rank (default 0)");
  create.AddOption(
      "--window-bytes", &options->window_bytes,
      "Size of each window in bytes (default: the size that its buffers and signals need)");

  Command& ls = AddVerb(domains, context, "ls", "List domains", "--session s1", options, &List);
  ls.AddOption("--session", &options->session, "List only domains of this session");

  AddName(AddVerb(domains, context, "show", "Show details of a domain", "d1", options, &Show),
          *options);

  Command& revoke =
      AddVerb(domains, context, "revoke", "Revoke a domain and fail the runs that use it",
              "d1 --reason \"chip 3 failed\"", options, &Revoke);
  AddName(revoke, *options);
  revoke.AddOption("--reason", &options->reason, "Reason to include in the errors of these runs");

  Command& rm = AddVerb(domains, context, "rm", "Delete domains and free their windows",
                        "d1 sessions/s1/domains/d2", options, &Remove);
  rm.AddOption("DOMAIN", &options->names, "Domain names or ids").Required();

  Command& notify = AddVerb(domains, context, "notify",
                            "Set or increment a signal, wake its waiters and print the new value",
                            "d1 0 1 5\n  ptoctl domains notify d1 0 1 1 --add", options, &Notify);
  AddName(notify, *options);
  notify.AddOption("RANK", &options->rank, "Rank that owns the signal").Required();
  notify.AddOption("SIGNAL", &options->signal, "Index of the signal").Required();
  notify.AddOption("VALUE", &options->value, "Value to set or to add").Required();
  notify.AddFlag("--add", &options->add, "Add VALUE to the signal instead of setting it");

  Command& signals = AddVerb(domains, context, "signals", "Show the signal values of a domain",
                             "d1\n  ptoctl domains signals d1 --rank 2", options, &Signals);
  AddName(signals, *options);
  signals.AddOption("--rank", &options->only_rank,
                    "Show only signals of this rank (default: all ranks)");
}

}  // namespace pto::ptoctl

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/job/chip_list.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/resolve_domain.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

// What the verbs take, each some of it.
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
  bool all_ranks = true;
};
using Verb = absl::Status (*)(const Context&, const DomainOptions&);

// `name:F32:1024`.
absl::StatusOr<WindowBufferSpec> ParseBuffer(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  WindowBufferSpec buffer;
  if (parts.size() != 3 || !v1::DType_Parse(parts[1], &buffer.dtype) ||
      !absl::SimpleAtoi(parts[2], &buffer.count)) {
    return Error(reason::kUsage,
                 absl::StrCat("expected NAME:TYPE:COUNT such as x:F32:1024, got '", text, "'"));
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
  // One that is gone must not keep the others.
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
  const uint32_t first = options.all_ranks ? 0 : options.rank;
  const uint32_t end = options.all_ranks ? domain.ranks() : options.rank + 1;
  std::vector<v1::ReadSignalsResponse> ranks;
  for (uint32_t rank = first; rank < end; ++rank) {
    PTO_ASSIGN_OR_RETURN(const std::vector<uint64_t> values, domain.ReadSignals(rank));
    ranks.emplace_back().mutable_values()->Add(values.begin(), values.end());
  }
  context.MakePrinter()->Signals(domain.info(), first, ranks);
  return absl::OkStatus();
}

CLI::App* AddVerb(CLI::App& domains, Context& context, const char* name, const char* description,
                  const char* examples, const std::shared_ptr<DomainOptions>& options,
                  Verb action) {
  CLI::App* verb = domains.add_subcommand(name, description);
  verb->footer(absl::StrCat("Examples:\n  ptoctl domains ", name, " ", examples));
  verb->callback([&context, options, action] {
    context.action = [&context, options, action] { return action(context, *options); };
  });
  return verb;
}

void AddName(CLI::App& verb, DomainOptions& options) {
  verb.add_option("DOMAIN", options.name, "Name, such as sessions/s1/domains/d1, or id, such as d1")
      ->required();
}

}  // namespace

void AddDomainsCommand(CLI::App& app, Context& context) {
  CLI::App* domains = app.add_subcommand("domains", "Chips that communicate: windows and signals");
  domains->require_subcommand(1);
  auto options = std::make_shared<DomainOptions>();

  CLI::App* create =
      AddVerb(*domains, context, "create", "Create a domain in a session that exists",
              "d1 --session s1 --chips 0-3 --buffer x:F32:1024 --signals 2", options, &Create);
  create->add_option("ID", options->name, "1 to 63 of a-z 0-9 -, starting with a letter")
      ->required();
  create->add_option("--session", options->session, "Whose it is")->required();
  create->add_option("--chips", options->chips, "Chips in order of rank, such as 0-3 or 2,0")
      ->required();
  create->add_option("--buffer", options->buffers, "NAME:TYPE:COUNT, in every window; repeat it");
  create->add_option("--signals", options->signals, "Signals on each rank");
  create->add_option("--window-bytes", options->window_bytes,
                     "Size of each window; as large as needed if not said");

  CLI::App* ls = AddVerb(*domains, context, "ls", "List domains", "--session s1", options, &List);
  ls->add_option("--session", options->session, "Only those of this session");

  AddName(*AddVerb(*domains, context, "show", "Show one domain", "d1", options, &Show), *options);

  CLI::App* revoke = AddVerb(*domains, context, "revoke", "Fail all that uses a domain",
                             "d1 --reason \"chip 3 is gone\"", options, &Revoke);
  AddName(*revoke, *options);
  revoke->add_option("--reason", options->reason, "Why, for the errors of its runs");

  CLI::App* rm = AddVerb(*domains, context, "rm", "Delete domains and free their windows",
                         "d1 sessions/s1/domains/d2", options, &Remove);
  rm->add_option("DOMAIN", options->names, "Names or ids")->required();

  CLI::App* notify = AddVerb(*domains, context, "notify",
                             "Set a signal, or add to it, and wake who waits; prints its value",
                             "d1 0 1 5\n  ptoctl domains notify d1 0 1 1 --add", options, &Notify);
  AddName(*notify, *options);
  notify->add_option("RANK", options->rank, "Whose signal")->required();
  notify->add_option("SIGNAL", options->signal, "Which one")->required();
  notify->add_option("VALUE", options->value, "What to set or add")->required();
  notify->add_flag("--add", options->add, "Add instead of setting");

  CLI::App* signals = AddVerb(*domains, context, "signals", "Show the signals of a domain",
                              "d1\n  ptoctl domains signals d1 --rank 2", options, &Signals);
  AddName(*signals, *options);
  signals->add_option_function<uint32_t>(
      "--rank",
      [options](const uint32_t& rank) {
        options->rank = rank;
        options->all_ranks = false;
      },
      "Only those of this rank");
}

}  // namespace pto::ptoctl

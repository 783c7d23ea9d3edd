#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/ptoctl/commands.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct RemoveOptions {
  std::vector<std::string> names;
  bool all = false;
};

absl::Status List(const Context& context) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Session> list, client.ListSessions());
  context.MakePrinter()->Sessions(list);
  return absl::OkStatus();
}

absl::Status Remove(const Context& context, const RemoveOptions& options) {
  if (options.all != options.names.empty()) {
    return Error(reason::kUsage, options.all ? "expected names or --all, not both"
                                             : "expected the name of a session, or --all");
  }
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  std::vector<std::string> names;
  for (const std::string& name : options.names) {
    names.push_back(absl::StrContains(name, '/') ? name : absl::StrCat("sessions/", name));
  }
  if (options.all) {
    PTO_ASSIGN_OR_RETURN(const std::vector<v1::Session> list, client.ListSessions());
    for (const v1::Session& session : list) {
      if (session.state() == v1::Session::ACTIVE) names.push_back(session.name());
    }
  }
  // One that is gone must not keep the others.
  absl::Status first;
  std::vector<v1::Session> removed;
  for (const std::string& name : names) {
    absl::StatusOr<v1::Session> session = client.DeleteSession(name);
    if (session.ok()) {
      removed.push_back(*std::move(session));
    } else if (first.ok()) {
      first = session.status();
    }
  }
  context.MakePrinter()->Sessions(removed);
  return first;
}

}  // namespace

void AddSessionsCommand(CLI::App& app, Context& context) {
  CLI::App* sessions = app.add_subcommand("sessions", "The leases of clients");
  sessions->require_subcommand(1);

  CLI::App* ls = sessions->add_subcommand("ls", "List sessions with what they hold");
  ls->footer("Examples:\n  ptoctl sessions ls\n  ptoctl sessions ls -o json");
  ls->callback([&context] { context.action = [&context] { return List(context); }; });

  CLI::App* rm = sessions->add_subcommand("rm", "End sessions: cancel their runs, free memory");
  auto options = std::make_shared<RemoveOptions>();
  rm->add_option("NAME", options->names, "Names, such as sessions/s1, or ids, such as s1");
  rm->add_flag("--all", options->all, "All sessions of the node");
  rm->footer("Examples:\n  ptoctl sessions rm s1 s2\n  ptoctl sessions rm --all");
  rm->callback([&context, options] {
    context.action = [&context, options] { return Remove(context, *options); };
  });
}

}  // namespace pto::ptoctl

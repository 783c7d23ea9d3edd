#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/session_name.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

absl::Status Describe(const Context& context, const std::string& session) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Host> list, client.ListHosts());
  for (const v1::Host& host : list) {
    // The pid says the same, and is what other tools show.
    if (host.session() != SessionName(session) && absl::StrCat(host.pid()) != session) continue;
    context.MakePrinter()->Host(host);
    return absl::OkStatus();
  }
  return Error(reason::kSessionUnknown, absl::StrCat("no kernel host runs for '", session, "'"))
      .Hint(
          "list them with `ptoctl hosts ls`; a session has one once a kernel was uploaded into it");
}

}  // namespace

void AddHostsCommand(Command& root, Context& context) {
  Command& hosts =
      root.AddCommand("hosts", "Show the processes that run uploaded kernels, one per session");

  Command& ls = hosts.AddCommand("ls", "List kernel hosts with their kernels, memory and restarts");
  ls.Footer("Examples:\n  ptoctl hosts ls\n  ptoctl hosts ls -o json");
  ls.Action([&context]() -> absl::Status {
    PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
    PTO_ASSIGN_OR_RETURN(const std::vector<v1::Host> list, client.ListHosts());
    context.MakePrinter()->Hosts(list);
    return absl::OkStatus();
  });

  Command& describe =
      hosts.AddCommand("describe", "Show details of a kernel host: its last death and its sandbox");
  auto session = std::make_shared<std::string>();
  describe.AddOption("SESSION", session.get(), "Session, by name or id, or the pid of the host")
      .Required();
  describe.Footer("Examples:\n  ptoctl hosts describe s1\n  ptoctl hosts describe 4711 -o json");
  describe.Action([&context, session] { return Describe(context, *session); });
}

}  // namespace pto::ptoctl

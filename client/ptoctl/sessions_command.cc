#include <algorithm>
#include <memory>
#include <string>
#include <vector>

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

struct ListOptions {
  // Each is KEY=VALUE.
  std::vector<std::string> labels;
};

std::string CheckLabel(const std::string& text) {
  const size_t equals = text.find('=');
  return equals == std::string::npos || equals == 0
             ? absl::StrCat("expected KEY=VALUE, got '", text, "'")
             : "";
}

bool HasLabels(const v1::Session& session, const std::vector<std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const std::string& label) {
    const size_t equals = label.find('=');
    const auto found = session.labels().find(label.substr(0, equals));
    return found != session.labels().end() && found->second == label.substr(equals + 1);
  });
}

absl::Status List(const Context& context, const ListOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(std::vector<v1::Session> list, client.ListSessions());
  list.erase(std::remove_if(
                 list.begin(), list.end(),
                 [&](const v1::Session& session) { return !HasLabels(session, options.labels); }),
             list.end());
  context.MakePrinter()->Sessions(list);
  return absl::OkStatus();
}

absl::Status Remove(const Context& context, const RemoveOptions& options) {
  if (options.all != options.names.empty()) {
    return Error(reason::kUsage, options.all ? "expected session names or --all, not both"
                                             : "expected a session name or --all");
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
  // An error for one session must not keep the others from being deleted.
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

void AddSessionsCommand(Command& root, Context& context) {
  Command& sessions = root.AddCommand("sessions", "List and end client sessions");

  Command& ls = sessions.AddCommand("ls", "List sessions and their resources");
  auto selected = std::make_shared<ListOptions>();
  ls.AddOption("-l,--label", &selected->labels,
               "List only sessions with this label, as KEY=VALUE; can be repeated")
      .Repeated()
      .Check(CheckLabel);
  ls.Footer(
      "Examples:\n  ptoctl sessions ls\n  ptoctl sessions ls -o json\n"
      "  ptoctl sessions ls -l job=ffn.txtpb -o name");
  ls.Action([&context, selected] { return List(context, *selected); });

  Command& rm = sessions.AddCommand("rm", "End sessions, cancel their runs and free their memory");
  auto options = std::make_shared<RemoveOptions>();
  rm.AddOption("NAME", &options->names, "Sessions to end, by name (sessions/s1) or id (s1)");
  rm.AddFlag("--all", &options->all, "End all sessions of the daemon");
  rm.Footer("Examples:\n  ptoctl sessions rm s1 s2\n  ptoctl sessions rm --all");
  rm.Action([&context, options] { return Remove(context, *options); });
}

}  // namespace pto::ptoctl

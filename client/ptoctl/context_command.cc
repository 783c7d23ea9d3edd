#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/context_file.h"
#include "client/ptoctl/table.h"
#include "google/protobuf/util/json_util.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

std::string TlsText(const contexts::v1::NamedContext& context) {
  if (context.tls_ca().empty()) return "";
  return context.tls_cert().empty() ? "yes" : "with a client certificate";
}

absl::Status List(const Context& context) {
  PTO_ASSIGN_OR_RETURN(const contexts::v1::Contexts all, LoadContexts(ContextFilePath()));
  if (context.quiet || context.output == "name") {
    for (const contexts::v1::NamedContext& each : all.contexts())
      context.out << each.name() << '\n';
  } else if (context.output == "json") {
    google::protobuf::util::JsonPrintOptions options;
    options.add_whitespace = true;
    options.always_print_primitive_fields = true;
    std::string json;
    if (!google::protobuf::util::MessageToJsonString(all, &json, options).ok()) json = "null\n";
    context.out << json;
  } else {
    Table table({"CURRENT", "NAME", "ADDRESS", "TLS"});
    for (const contexts::v1::NamedContext& each : all.contexts()) {
      table.Add(
          {each.name() == all.current() ? "*" : "", each.name(), each.address(), TlsText(each)});
    }
    context.out << table.Format();
  }
  return absl::OkStatus();
}

absl::Status Use(const std::string& name) {
  const std::string path = ContextFilePath();
  PTO_ASSIGN_OR_RETURN(contexts::v1::Contexts all, LoadContexts(path));
  if (FindContext(all, name) == nullptr) return NoContext(all, name);
  all.set_current(name);
  return SaveContexts(all, path);
}

absl::Status UseNone() {
  const std::string path = ContextFilePath();
  PTO_ASSIGN_OR_RETURN(contexts::v1::Contexts all, LoadContexts(path));
  all.clear_current();
  return SaveContexts(all, path);
}

absl::Status Add(const Context& context, const std::string& name) {
  if (context.address.empty()) {
    return Error(reason::kUsage, "a context needs an address")
        .Hint(absl::StrCat("ptoctl context add ", name, " --address unix:/path or host:port"));
  }
  const std::string path = ContextFilePath();
  PTO_ASSIGN_OR_RETURN(contexts::v1::Contexts all, LoadContexts(path));
  contexts::v1::NamedContext* added = FindContext(all, name);
  if (added == nullptr) added = all.add_contexts();
  added->Clear();
  added->set_name(name);
  added->set_address(context.address);
  added->set_tls_ca(context.tls.ca_file);
  added->set_tls_cert(context.tls.cert_file);
  added->set_tls_key(context.tls.key_file);
  added->set_tls_server_name(context.tls.server_name);
  added->set_token_file(context.token_file);
  return SaveContexts(all, path);
}

absl::Status Remove(const std::string& name) {
  const std::string path = ContextFilePath();
  PTO_ASSIGN_OR_RETURN(contexts::v1::Contexts all, LoadContexts(path));
  const contexts::v1::NamedContext* const found = FindContext(all, name);
  if (found == nullptr) return NoContext(all, name);
  if (all.current() == name) all.clear_current();
  for (int i = 0; i < all.contexts_size(); ++i) {
    if (&all.contexts(i) != found) continue;
    all.mutable_contexts()->DeleteSubrange(i, 1);
    break;
  }
  return SaveContexts(all, path);
}

}  // namespace

void AddContextCommand(Command& root, Context& context) {
  Command& group =
      root.AddCommand("context", "Manage the daemons you work with (works without a daemon)");
  group.Footer(
      "A context is a name for an address, its TLS files and a token file. The current context is "
      "used when\n"
      "neither --address nor PTOD_ADDRESS is given. Options override what a context says.");

  group.AddCommand("ls", "List all contexts")
      .Footer("Examples:\n  ptoctl context ls\n  ptoctl context ls -o json")
      .Action([&context] { return List(context); });

  auto name = std::make_shared<std::string>();
  auto none = std::make_shared<bool>(false);
  Command& use = group.AddCommand("use", "Make a context the current one");
  use.AddOption("NAME", name.get(), "Name of the context");
  use.AddFlag("--none", none.get(), "Use no context");
  use.Footer("Examples:\n  ptoctl context use lab\n  ptoctl context use --none");
  use.Action([name, none]() -> absl::Status {
    if (*none && name->empty()) return UseNone();
    if (!name->empty() && !*none) return Use(*name);
    return Error(reason::kUsage, "give the name of a context, or --none")
        .Hint("list them with `ptoctl context ls`");
  });

  Command& add = group.AddCommand("add", "Add a context, or replace the one of this name");
  add.AddOption("NAME", name.get(), "Name of the context").Required();
  add.Footer(
      "Takes the address, the TLS files and the token file from the global options.\n\n"
      "Examples:\n  ptoctl context add lab --address lab-7:7000 --tls-ca ca.pem\n"
      "  ptoctl context add local --address unix:/run/ptod/ptod.sock");
  add.Action([&context, name] { return Add(context, *name); });

  Command& rm = group.AddCommand("rm", "Remove a context");
  rm.AddOption("NAME", name.get(), "Name of the context").Required();
  rm.Footer("Examples:\n  ptoctl context rm lab");
  rm.Action([name] { return Remove(*name); });
}

}  // namespace pto::ptoctl

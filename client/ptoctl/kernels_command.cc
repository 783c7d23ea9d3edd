#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/resolve_kernel.h"
#include "client/ptoctl/session_name.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct KernelsOptions {
  std::string session;
  std::string name;
  std::vector<std::string> names;
};

absl::Status List(const Context& context, const KernelsOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(std::vector<v1::Kernel> list, ListUploadedKernels(client, options.session));
  if (options.session.empty()) {
    PTO_ASSIGN_OR_RETURN(std::vector<v1::Kernel> built_in, client.ListKernels());
    std::move(built_in.begin(), built_in.end(), std::back_inserter(list));
  }
  context.MakePrinter()->Kernels(list);
  return absl::OkStatus();
}

absl::StatusOr<v1::Kernel> Find(Client& client, const std::string& given,
                                const std::string& session, bool built_in) {
  if (absl::StrContains(given, '/')) return client.GetKernel(given);
  if (!session.empty()) {
    return client.GetKernel(absl::StrCat(SessionName(session), "/kernels/", given));
  }
  PTO_ASSIGN_OR_RETURN(std::vector<v1::Kernel> list, ListUploadedKernels(client, ""));
  if (built_in) {
    PTO_ASSIGN_OR_RETURN(std::vector<v1::Kernel> others, client.ListKernels());
    std::move(others.begin(), others.end(), std::back_inserter(list));
  }
  return PickKernel(list, given);
}

absl::Status Describe(const Context& context, const KernelsOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(const v1::Kernel kernel,
                       Find(client, options.name, options.session, /*built_in=*/true));
  context.MakePrinter()->Kernel(kernel);
  return absl::OkStatus();
}

absl::Status Remove(const Context& context, const KernelsOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  // An error for one kernel must not keep the others from being deleted.
  absl::Status first;
  std::vector<v1::Kernel> removed;
  for (const std::string& name : options.names) {
    const absl::StatusOr<v1::Kernel> kernel =
        Find(client, name, options.session, /*built_in=*/false);
    absl::StatusOr<v1::Kernel> deleted =
        kernel.ok() ? client.DeleteKernel(kernel->name()) : kernel.status();
    if (deleted.ok()) {
      removed.push_back(*std::move(deleted));
    } else if (first.ok()) {
      first = deleted.status();
    }
  }
  if (!removed.empty() || first.ok()) context.MakePrinter()->Kernels(removed);
  return first;
}

void AddSession(Command& command, KernelsOptions& options, const std::string& description) {
  command.AddOption("--session", &options.session, description);
}

}  // namespace

void AddKernelsCommand(Command& root, Context& context) {
  Command& kernels = root.AddCommand("kernels", "Write, check, upload and list kernels");
  auto options = std::make_shared<KernelsOptions>();

  Command& ls =
      kernels.AddCommand("ls", "List kernels with their core type, arguments and description");
  AddSession(ls, *options, "List only the kernels that were uploaded into this session");
  ls.Footer(
      "Uploaded kernels come first.\n\n"
      "Examples:\n  ptoctl kernels ls\n  ptoctl kernels ls --session s1 -o json");
  ls.Action([&context, options] { return List(context, *options); });

  Command& describe = kernels.AddCommand("describe", "Show details of a kernel");
  describe
      .AddOption("NAME", &options->name,
                 "Kernel, by name (kernels/add, sessions/s1/kernels/mine) or id (add)")
      .Required();
  AddSession(describe, *options, "Session that the id belongs to");
  describe.Footer(
      "Examples:\n  ptoctl kernels describe add\n  ptoctl kernels describe mine -o json");
  describe.Action([&context, options] { return Describe(context, *options); });

  AddKernelNewCommand(kernels, context);
  AddKernelCheckCommand(kernels, context);
  AddKernelRegisterCommand(kernels, context);

  Command& rm = kernels.AddCommand("rm", "Delete uploaded kernels");
  rm.AddOption("NAME", &options->names, "Kernels, by name (sessions/s1/kernels/mine) or id (mine)")
      .Required();
  AddSession(rm, *options, "Session that the ids belong to");
  rm.Footer(
      "Graphs that were compiled with a kernel keep it.\n\n"
      "Examples:\n  ptoctl kernels rm mine\n  ptoctl kernels rm sessions/s1/kernels/mine");
  rm.Action([&context, options] { return Remove(context, *options); });
}

}  // namespace pto::ptoctl

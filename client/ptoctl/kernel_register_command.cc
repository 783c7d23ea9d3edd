#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/job/read_file.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/progress_line.h"
#include "client/ptoctl/session_name.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct RegisterOptions {
  std::string file;
  std::string session;
  std::string signature_file;
  absl::Duration ttl = absl::Hours(1);
  KernelOptions kernel;
};

// An existing session, or a new one that outlives this program.
absl::StatusOr<Session> OpenSession(Client& client, const RegisterOptions& options) {
  if (!options.session.empty()) return client.AttachSession(SessionName(options.session));
  SessionOptions created;
  created.ttl = options.ttl;
  created.labels["kernel"] = options.file.substr(options.file.rfind('/') + 1);
  return client.CreateSession(created);
}

absl::Status Register(const Context& context, const RegisterOptions& options) {
  KernelOptions kernel_options = options.kernel;
  if (!options.signature_file.empty()) {
    absl::StatusOr<std::string> text = job::ReadFile(options.signature_file);
    if (!text.ok()) return Error(reason::kUsage, text.status().message());
    kernel_options.signature = *std::move(text);
  }
  // Reading it fails before anything is created.
  absl::StatusOr<std::string> object = job::ReadFile(options.file);
  if (!object.ok()) return Error(reason::kUsage, object.status().message());
  kernel_options.file_name = options.file.substr(options.file.rfind('/') + 1);
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  PTO_ASSIGN_OR_RETURN(Session session, OpenSession(client, options));
  ProgressLine progress(context.err, context.err_is_terminal && !context.quiet, "KiB sent");
  kernel_options.progress = [&progress](uint64_t sent, uint64_t total) {
    progress.Update(sent / 1024, total / 1024);
  };
  const absl::StatusOr<v1::Kernel> kernel = session.RegisterKernelObject(*object, kernel_options);
  progress.Clear();
  if (!kernel.ok()) return kernel.status();
  context.MakePrinter()->Kernel(*kernel);
  if (options.session.empty()) {
    session.Detach();
    if (!context.quiet) {
      context.err << "Run jobs with it: ptoctl runs submit JOB --session " << session.name()
                  << "\nThe session ends " << absl::FormatDuration(options.ttl)
                  << " after its last use, or with `ptoctl sessions rm " << session.name()
                  << "`.\n";
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddKernelRegisterCommand(Command& kernels, Context& context) {
  Command& add = kernels.AddCommand(
      "register", "Upload a kernel into a session, so that its tasks can name it");
  auto options = std::make_shared<RegisterOptions>();
  add.AddOption("FILE", &options->file, "Shared object with the kernel").Required();
  add.AddOption("--session", &options->session,
                "Session, by name or id (default: a new one, which is kept for --ttl)");
  add.AddOption(
      "--id", &options->kernel.id,
      "Id of the kernel (default: the name in its pto_kernel_info); required for a kernel "
      "of the PTO ABI");
  add.AddOption("--signature", &options->kernel.signature,
                "What a kernel of the PTO ABI takes, for example \"in f32[] x, out f32[] y\"");
  add.AddOption("--signature-file", &options->signature_file, "The same, from a file")
      .Excludes({"--signature"});
  add.AddOption("--entry", &options->kernel.entry,
                "Symbol of the kernel (default: pto_kernel_info or kernel_entry)");
  add.AddOption("--ttl", &options->ttl,
                "Lifetime of a new session after its last use (default 1h)");
  add.Footer(
      "The daemon checks the object and loads it in a process of its own. Job files can upload\n"
      "kernels too: see `kernels` in client/job/job.proto.\n\nExamples:\n"
      "  ptoctl kernels register scale_add.so\n"
      "  ptoctl kernels register scale.so --id scale --signature-file scale.sig --session s1");
  add.Action([&context, options] { return Register(context, *options); });
}

}  // namespace pto::ptoctl

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/kernel_template.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct NewOptions {
  std::string name;
  std::string directory;
  bool pto = false;
};

absl::Status New(const Context& context, const NewOptions& options) {
  const std::string folder = options.directory.empty() ? options.name : options.directory;
  const std::vector<KernelFile> files = MakeKernelFiles(options.name, options.pto);
  PTO_RETURN_IF_ERROR(WriteKernelFiles(files, folder));
  for (const KernelFile& file : files) context.out << folder << "/" << file.name << "\n";
  if (context.quiet) return absl::OkStatus();
  context.err << "Next:\n  cd " << folder << "\n  make && make test\n  ptoctl kernels check "
              << options.name << ".so"
              << (options.pto ? absl::StrCat(" --signature-file ", options.name, ".sig") : "")
              << "\n  ptoctl runs submit " << options.name << ".json\n";
  return absl::OkStatus();
}

}  // namespace

void AddKernelNewCommand(Command& kernels, Context& context) {
  Command& create = kernels.AddCommand(
      "new", "Write the source of a new kernel, with a test, a job and build files");
  auto options = std::make_shared<NewOptions>();
  create
      .AddOption(
          "NAME", &options->name,
          "Name of the kernel: 1 to 63 characters from a-z, 0-9 and _, starting with a letter")
      .Required()
      .Check([](const std::string& name) {
        return IsKernelId(name) ? std::string()
                                : absl::StrCat("'", name,
                                               "' is no kernel name: expected 1 to 63 "
                                               "characters from a-z, 0-9 and _, starting with a "
                                               "letter");
      });
  create.AddFlag("--pto", &options->pto,
                 "Use the ABI of the PTO ecosystem (kernel_entry) instead of pto_kernel.h");
  create.AddOption("--directory", &options->directory, "Folder to write to (default: NAME)");
  create.Footer(
      "Works without a daemon, and overwrites nothing. The files need nothing but a compiler.\n\n"
      "Examples:\n  ptoctl kernels new scale_add\n"
      "  ptoctl kernels new scale --pto --directory kernels/scale");
  create.Action([&context, options] { return New(context, *options); });
}

}  // namespace pto::ptoctl

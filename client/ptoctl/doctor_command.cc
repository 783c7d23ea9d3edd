#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/ptoctl/child_command.h"
#include "client/ptoctl/commands.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

constexpr char kProgram[] = "ptod_chip_host";

struct Options {
  std::string program;
  std::string cann_path;
};

// The folder of this program, with a slash at the end.
std::string OwnFolder() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  const std::string own(path, size < 0 ? 0 : static_cast<size_t>(size));
  return own.substr(0, own.rfind('/') + 1);
}

// The program that may open the libraries of CANN: this one must not, because they may crash.
absl::StatusOr<std::string> FindProgram(const Options& options) {
  if (!options.program.empty()) return options.program;
  std::vector<std::string> folders = {OwnFolder(), "/usr/lib/ptod/"};
  const char* const path = std::getenv("PATH");  // NOLINT: one thread
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (!folder.empty()) folders.push_back(absl::StrCat(folder, "/"));
  }
  for (const std::string& folder : folders) {
    if (access((folder + kProgram).c_str(), X_OK) == 0) return folder + kProgram;
  }
  return Error(reason::kUsage, absl::StrCat("there is no ", kProgram, " beside ptoctl or in PATH"))
      .Hint("it is installed with ptod; say where it is with --chip-host");
}

absl::Status Examine(Context& context, const Options& options) {
  PTO_ASSIGN_OR_RETURN(const std::string program, FindProgram(options));
  std::vector<std::string> command = {program, "--doctor", "--output", context.output};
  if (!options.cann_path.empty()) {
    command.insert(command.end(), {"--cann-path", options.cann_path});
  }
  context.out.flush();
  PTO_ASSIGN_OR_RETURN(context.exit_code, RunChild(command, {}));
  return absl::OkStatus();
}

}  // namespace

void AddDoctorCommand(Command& root, Context& context) {
  Command& doctor = root.AddCommand(
      "doctor", "Check whether this machine can drive Ascend chips (works without a daemon)");
  auto options = std::make_shared<Options>();
  doctor.AddOption("--cann-path", &options->cann_path,
                   "Folder of CANN (default: search it as the daemon does)");
  doctor.AddOption("--chip-host", &options->program,
                   "The program ptod_chip_host (default: beside ptoctl, then in PATH)");
  doctor.Footer(
      "Run it as the user of the daemon, on its machine. Exits with 1 if there is a problem.\n\n"
      "Examples:\n  ptoctl doctor\n  sudo -u ptod ptoctl doctor -o json");
  doctor.Action([&context, options] { return Examine(context, *options); });
}

}  // namespace pto::ptoctl

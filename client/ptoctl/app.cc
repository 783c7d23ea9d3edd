#include "client/ptoctl/app.h"

#include <algorithm>
#include <exception>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/job/nearest.h"
#include "client/ptoctl/command.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/context.h"
#include "client/ptoctl/error_text.h"
#include "client/ptoctl/exit_code.h"
#include "runtime/base/error.h"

namespace pto::ptoctl {
namespace {

constexpr char kVersion[] = "ptoctl 1.2.0";

int Code(ExitCode code) { return static_cast<int>(code); }

// Options of this command and of its parents.
std::vector<std::string> LongOptions(const Command* command) {
  std::vector<std::string> names;
  for (; command != nullptr; command = command->parent()) {
    for (const std::string& name : command->OptionNames()) {
      if (absl::StartsWith(name, "--")) names.push_back(name);
    }
  }
  return names;
}

absl::Status Usage(const Command& command, absl::string_view message, const std::string& nearest) {
  return Error(reason::kUsage, message)
      .Hint(nearest.empty() ? absl::StrCat("see `", command.Path(), " --help`")
                            : absl::StrCat("did you mean '", nearest, "'?"));
}

// Reports unknown commands and options with a suggestion, which Command::Parse cannot give. Sets
// `last` to the innermost command found.
absl::Status CheckNames(const std::vector<std::string>& args, const Command** last) {
  const Command* command = *last;
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    const std::string& arg = args[i];
    if (absl::StartsWith(arg, "-") && arg.size() > 1) {
      const std::string name = arg.substr(0, arg.find('='));
      const absl::optional<Option> option = command->FindOption(name);
      if (!option.has_value() && absl::StartsWith(arg, "--")) {
        return Usage(*command, absl::StrCat("unknown option '", arg, "'"),
                     job::Nearest(name, LongOptions(command)));
      }
      const bool takes_value = option.has_value() && option->TakesValue();
      if (takes_value && !absl::StrContains(arg, '=')) ++i;
      continue;
    }
    const auto& below = command->commands();
    if (below.empty()) continue;
    const auto found = std::find_if(below.begin(), below.end(),
                                    [&](const auto& each) { return each->name() == arg; });
    if (found == below.end()) {
      std::vector<std::string> names;
      for (const auto& each : below) names.push_back(each->name());
      return Usage(*command, absl::StrCat("unknown command '", arg, "'"), job::Nearest(arg, names));
    }
    *last = command = found->get();
  }
  return absl::OkStatus();
}

void AddGlobalOptions(Command& root, Context& context) {
  root.AddVersion(kVersion);
  root.AddOption("-o,--output", &context.output,
                 "Output format (default table); name is the same as --quiet")
      .OneOf({"table", "json", "name"});
  root.AddFlag("-q,--quiet", &context.quiet, "Print only names, one per line");
  root.AddOption("--address", &context.address,
                 "Address of the daemon, unix:/path or host:port (default $PTOD_ADDRESS; if unset, "
                 "that of the current context; without one, $XDG_RUNTIME_DIR/ptod.sock if it "
                 "exists and you are not root; otherwise unix:/run/ptod/ptod.sock)");
  root.AddOption("--context", &context.context_name,
                 "Context to use, see `ptoctl context` (default the current one)");
  root.AddOption("--tls-ca", &context.tls.ca_file,
                 "Use TLS for host:port; file with the authorities of the daemon's certificate "
                 "(default $PTOD_TLS_CA)");
  root.AddOption("--tls-cert", &context.tls.cert_file,
                 "File with the client's certificate (default $PTOD_TLS_CERT)");
  root.AddOption("--tls-key", &context.tls.key_file,
                 "File with the key of the client's certificate (default $PTOD_TLS_KEY)");
  root.AddOption("--tls-server-name", &context.tls.server_name,
                 "Name in the daemon's certificate, if it is not the host of the address (default "
                 "$PTOD_TLS_SERVER_NAME)");
  root.AddOption("--token-file", &context.token_file,
                 "File with a token, for a daemon over TCP (default $PTOD_TOKEN_FILE)");
  root.AddOption("--timeout", &context.timeout,
                 "Time limit for a call or for waiting for a run (default 30s for calls, no limit "
                 "for runs)");
}

int Run(const std::function<absl::Status()>& action, Context& context) {
  const absl::Status status = action ? action() : absl::OkStatus();
  context.out.flush();
  if (!status.ok()) context.err << FormatError(status, context.places);
  if (status.ok() && context.exit_code.has_value()) return *context.exit_code;
  return Code(ExitCodeOf(status));
}

int ParseAndRun(const std::vector<std::string>& args, Command& root, Context& context) {
  const Command* last = &root;
  const absl::Status names = CheckNames(args, &last);
  if (!names.ok()) {
    context.err << FormatError(names);
    return Code(ExitCode::kUsage);
  }
  const Command::Reading reading = root.Parse(args);
  switch (reading.kind) {
    case Command::Reading::kAction:
      return Run(reading.action, context);
    case Command::Reading::kQuestion:
      context.out << reading.text;
      return Code(ExitCode::kOk);
    case Command::Reading::kNotComplete:
      if (!last->commands().empty()) {
        context.err << last->Help();
        return Code(ExitCode::kUsage);
      }
      break;
    case Command::Reading::kNotUnderstood:
      break;
  }
  context.err << FormatError(Usage(*last, reading.text, ""));
  return Code(ExitCode::kUsage);
}

}  // namespace

int Main(const std::vector<std::string>& args, std::ostream& out, std::ostream& err,
         bool err_is_terminal) {
  Context context{out, err, err_is_terminal};
  Command root("ptoctl", "Control a ptod daemon and run task graphs on its chips.");
  AddGlobalOptions(root, context);
  AddNodeCommand(root, context);
  AddConfigCommand(root, context);
  AddChipsCommand(root, context);
  AddSessionsCommand(root, context);
  AddDomainsCommand(root, context);
  AddKernelsCommand(root, context);
  AddHostsCommand(root, context);
  AddGraphsCommand(root, context);
  AddRunsCommand(root, context);
  AddScenariosCommand(root, context);
  AddUsageCommand(root, context);
  AddTopCommand(root, context);
  AddContextCommand(root, context);
  AddErrorsCommand(root, context);
  AddDoctorCommand(root, context);
  AddCompletionCommand(root, context);
  root.Footer(
      "Use \"ptoctl COMMAND --help\" for more information about a command.\n\n"
      "Exit codes: 0 success, 1 failure, 2 invalid command line or job file, 3 daemon "
      "unreachable,\n"
      "4 timeout.\n\n"
      "Examples:\n  ptoctl chips ls\n  ptoctl runs submit client/examples/vector_add.json\n"
      "  PTOD_ADDRESS=unix:/tmp/ptod.sock ptoctl node info");
  try {
    return ParseAndRun(args, root, context);
  } catch (const std::exception& error) {
    // For example, out of memory for a job's buffers.
    err << "ptoctl: error: " << error.what() << '\n';
    return Code(ExitCode::kFailed);
  }
}

}  // namespace pto::ptoctl

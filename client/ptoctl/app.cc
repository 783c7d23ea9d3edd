#include "client/ptoctl/app.h"

#include <algorithm>
#include <exception>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/job/nearest.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/context.h"
#include "client/ptoctl/duration_option.h"
#include "client/ptoctl/error_text.h"
#include "client/ptoctl/exit_code.h"
#include "runtime/base/error.h"

namespace pto::ptoctl {
namespace {

constexpr char kVersion[] = "ptoctl 1.0.0";

int Code(ExitCode code) { return static_cast<int>(code); }

// The option that an argument such as `--out=x` or `-o` names, here or in a command above.
const CLI::Option* FindOption(const CLI::App* app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  for (; app != nullptr; app = app->get_parent()) {
    const CLI::Option* option = app->get_option_no_throw(name);
    if (option != nullptr) return option;
  }
  return nullptr;
}

std::vector<std::string> LongOptions(const CLI::App* app) {
  std::vector<std::string> names;
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options({})) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::string CommandLine(const CLI::App* app) {
  const CLI::App* parent = app->get_parent();
  return parent == nullptr ? app->get_name()
                           : absl::StrCat(CommandLine(parent), " ", app->get_name());
}

absl::Status Usage(const CLI::App* app, absl::string_view message, const std::string& nearest) {
  const std::string help = absl::StrCat(CommandLine(app), " --help");
  return Error(reason::kUsage, message)
      .Hint(nearest.empty() ? absl::StrCat("see `", help, "`")
                            : absl::StrCat("did you mean '", nearest, "'?"));
}

// Finds names that are not known, before CLI11 complains in more general words. `last` becomes
// the command that was reached.
absl::Status CheckNames(const std::vector<std::string>& args, const CLI::App* app,
                        const CLI::App** last) {
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    *last = app;
    const std::string& arg = args[i];
    if (absl::StartsWith(arg, "-") && arg.size() > 1) {
      const CLI::Option* option = FindOption(app, arg);
      if (option == nullptr && absl::StartsWith(arg, "--")) {
        return Usage(app, absl::StrCat("unknown option '", arg, "'"),
                     job::Nearest(arg.substr(0, arg.find('=')), LongOptions(app)));
      }
      const bool takes_value = option != nullptr && option->get_items_expected_max() > 0;
      if (takes_value && !absl::StrContains(arg, '=')) ++i;
      continue;
    }
    const std::vector<const CLI::App*> subs = app->get_subcommands({});
    if (subs.empty()) continue;
    const auto found = std::find_if(subs.begin(), subs.end(),
                                    [&](const CLI::App* sub) { return sub->get_name() == arg; });
    if (found == subs.end()) {
      std::vector<std::string> names;
      for (const CLI::App* sub : subs) names.push_back(sub->get_name());
      return Usage(app, absl::StrCat("unknown command '", arg, "'"), job::Nearest(arg, names));
    }
    *last = app = *found;
  }
  return absl::OkStatus();
}

void AddGlobalOptions(CLI::App& app, Context& context) {
  app.set_version_flag("--version", kVersion);
  app.add_option("-o,--output", context.output, "Form of the result: table or json")
      ->check(CLI::IsMember({"table", "json"}));
  app.add_flag("-q,--quiet", context.quiet, "Print names only");
  app.add_option("--address", context.address,
                 "Where ptod listens: unix:/path or host:port (default: $PTOD_ADDRESS, else "
                 "$XDG_RUNTIME_DIR/ptod.sock if you are not root and it is there, else "
                 "unix:/run/ptod/ptod.sock)");
  AddDurationOption(app, "--timeout",
                    "Longest time for a call, or to wait for a run (30s for calls, no limit for "
                    "runs if not said)",
                    [&context](absl::Duration timeout) { context.timeout = timeout; });
}

void FallThrough(CLI::App& app) {
  for (CLI::App* sub : app.get_subcommands({})) {
    sub->fallthrough();
    FallThrough(*sub);
  }
}

// CLI11 speaks in exceptions; none leaves this function.
int ParseAndRun(const std::vector<std::string>& args, CLI::App& app, Context& context) {
  const CLI::App* last = &app;
  const absl::Status names = CheckNames(args, &app, &last);
  if (!names.ok()) {
    context.err << FormatError(names);
    return Code(ExitCode::kUsage);
  }
  try {
    // CLI11 takes its arguments from the back.
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    app.parse(reversed);
  } catch (const CLI::Success& asked) {
    app.exit(asked, context.out, context.err);
    return Code(ExitCode::kOk);
  } catch (const CLI::RequiredError& missing) {
    if (!last->get_subcommands({}).empty()) {
      context.err << last->help(last->get_parent() == nullptr ? "" : "ptoctl");
    } else {
      context.err << FormatError(Usage(last, missing.what(), ""));
    }
    return Code(ExitCode::kUsage);
  } catch (const CLI::Error& error) {
    context.err << FormatError(Usage(last, error.what(), ""));
    return Code(ExitCode::kUsage);
  }
  const absl::Status status = context.action ? context.action() : absl::OkStatus();
  context.out.flush();
  if (!status.ok()) context.err << FormatError(status, context.places);
  if (status.ok() && context.exit_code.has_value()) return *context.exit_code;
  return Code(ExitCodeOf(status));
}

}  // namespace

int Main(const std::vector<std::string>& args, std::ostream& out, std::ostream& err,
         bool err_is_terminal) {
  Context context{out, err, err_is_terminal};
  CLI::App app("Runs task graphs on the chips of a ptod daemon.", "ptoctl");
  app.require_subcommand(1);
  AddGlobalOptions(app, context);
  AddNodeCommand(app, context);
  AddChipsCommand(app, context);
  AddSessionsCommand(app, context);
  AddDomainsCommand(app, context);
  AddKernelsCommand(app, context);
  AddGraphsCommand(app, context);
  AddRunsCommand(app, context);
  AddScenariosCommand(app, context);
  AddTopCommand(app, context);
  AddErrorsCommand(app, context);
  AddCompletionCommand(app, context);
  FallThrough(app);
  app.footer(
      "Exit codes: 0 ok, 1 failed, 2 wrong command line or job file, 3 no daemon, 4 timed out.\n\n"
      "Examples:\n  ptoctl chips ls\n  ptoctl runs submit client/examples/vector_add.json\n"
      "  PTOD_ADDRESS=unix:/tmp/ptod.sock ptoctl node info");
  try {
    return ParseAndRun(args, app, context);
  } catch (const std::exception& error) {
    // Such as no memory for a job's buffers.
    err << "ptoctl: error: " << error.what() << '\n';
    return Code(ExitCode::kFailed);
  }
}

}  // namespace pto::ptoctl

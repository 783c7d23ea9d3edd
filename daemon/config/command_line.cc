#include "daemon/config/command_line.h"

#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "daemon/config/effective.h"
#include "daemon/config/load.h"
#include "daemon/config/settings.h"
#include "daemon/config/validate.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

constexpr char kDescription[] =
    "ptod owns the NPU chips of a node, runs the task graphs that clients send, and streams\n"
    "events back. A flag wins over the configuration file.";

// One setting and its option on the command line.
struct Flag {
  const Setting* setting;
  CLI::Option* option;
};

std::string HelpFor(const Setting& setting) {
  const absl::string_view value = setting.default_value;
  return value.empty() ? std::string(setting.help)
                       : absl::StrCat(setting.help, " (default ", value, ")");
}

Flag AddFlag(CLI::App& app, const Setting& setting) {
  const std::string name = absl::StrCat("--", setting.flag);
  const absl::string_view type = TypeName(setting);
  if (type.empty()) {
    const std::string help = HelpFor(setting);
    return {&setting, app.add_flag(name, help)};
  }
  CLI::Option* const option =
      app.add_option(name, CLI::callback_t([](const CLI::results_t&) { return true; }),
                     HelpFor(setting))
          ->type_name(std::string(type))
          ->expected(1);
  if (IsList(setting)) option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  // Otherwise the flag of a list would take the following arguments as values.
  option->allow_extra_args(false);
  return {&setting, option};
}

FlagValues ValuesOf(const std::vector<Flag>& flags) {
  FlagValues values;
  for (const Flag& flag : flags) {
    for (const std::string& text : flag.option->results()) {
      values.emplace_back(flag.setting, text);
    }
  }
  return values;
}

CommandLine Printed(std::string text) {
  CommandLine line;
  line.action = CommandLine::Action::kPrint;
  line.text = std::move(text);
  return line;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             absl::string_view version) {
  CLI::App app(kDescription, "ptod");
  app.get_formatter()->column_width(34);
  app.set_version_flag("--version", std::string(version));
  std::string path;
  app.add_option("--config", path, "configuration file, in text protobuf")->type_name("FILE");
  bool print = false;
  app.add_flag("--print-config", print,
               "print every setting, its value and where that comes from, and exit");
  int exit_with = 0;
  app.add_option("--exit-with", exit_with,
                 "id of the process that started ptod; ptod stops when that ends")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  std::vector<Flag> flags;
  for (const Setting& setting : AllSettings()) flags.push_back(AddFlag(app, setting));

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Printed(app.help());
  } catch (const CLI::CallForVersion&) {
    return Printed(absl::StrCat(version, "\n"));
  } catch (const CLI::ParseError& error) {
    return Error(reason::kConfigInvalid, error.what());
  }

  config::v1::DaemonConfig file;
  if (!path.empty()) {
    PTO_ASSIGN_OR_RETURN(file, LoadConfig(path));
  }
  const std::string listen =
      DefaultListenAddress(geteuid() == 0, std::getenv("XDG_RUNTIME_DIR"));  // NOLINT: no threads
  PTO_ASSIGN_OR_RETURN(EffectiveConfig effective, MakeEffective(file, ValuesOf(flags), listen));
  PTO_RETURN_IF_ERROR(ValidateConfig(effective.config));
  if (print) return Printed(PrintConfig(effective));
  CommandLine line;
  line.effective = std::move(effective);
  line.exit_with = exit_with;
  return line;
}

}  // namespace pto::daemon

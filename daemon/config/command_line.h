#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/config/effective.h"

namespace pto::daemon {

// What ptod is asked to do.
struct CommandLine {
  enum class Action {
    kServe,
    // Write `text` to standard output and exit with 0: --help, --version, --print-config.
    kPrint,
  };
  Action action = Action::kServe;
  // The effective, valid configuration. For kServe.
  EffectiveConfig effective;
  // The process with which the daemon ends. For kServe; 0 means none.
  int exit_with = 0;
  std::string text;
};

// Parses ptod's command line and the file that --config names, and validates the result.
// `version` is what --version prints.
// Errors: CONFIG_INVALID; ptod prints the message and exits with 2.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             absl::string_view version);

}  // namespace pto::daemon

#pragma once

#include <memory>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/client.h"
#include "client/job/source_map.h"
#include "client/ptoctl/printer.h"

namespace pto::ptoctl {

// The state that all commands share: global options and output streams. Owned by Main; commands
// keep references to it. Not thread-safe.
struct Context {
  // Results go to `out`, messages to `err`.
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;

  // ---- global options
  std::string output = "table";
  bool quiet = false;
  std::string address = {};
  TlsOptions tls = {};
  // A context of `ptoctl context`; empty means the current one, if there is one.
  std::string context_name = {};
  std::string token_file = {};
  // Empty if --timeout was not given.
  absl::optional<absl::Duration> timeout = {};

  // Set by commands that return the exit code of another program.
  absl::optional<int> exit_code = {};
  // Set by commands that read a job file, so that daemon errors can point to a line in it.
  job::SourceMap places = {};

  // Where the daemon is and how to trust it: what the options say; what they leave out, the context
  // says, unless PTOD_ADDRESS or --address name another daemon.
  struct Target {
    std::string address;  // empty: the default
    TlsOptions tls;
    std::string token_file;
  };
  absl::StatusOr<Target> FindTarget() const;
  // Connects to the daemon within --timeout.
  absl::StatusOr<Client> Connect() const;
  // Time limit for one call.
  absl::Duration CallTimeout() const;
  // Time limit for waiting for a run: --timeout, or no limit if it was not given.
  absl::Duration WaitTimeout() const;
  std::unique_ptr<Printer> MakePrinter() const;
};

}  // namespace pto::ptoctl

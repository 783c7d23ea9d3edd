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
  // Empty if --timeout was not given.
  absl::optional<absl::Duration> timeout = {};

  // Set by commands that return the exit code of another program.
  absl::optional<int> exit_code = {};
  // Set by commands that read a job file, so that daemon errors can point to a line in it.
  job::SourceMap places = {};

  // Connects to the daemon within --timeout.
  absl::StatusOr<Client> Connect() const;
  // Time limit for one call.
  absl::Duration CallTimeout() const;
  // Time limit for waiting for a run: --timeout, or no limit if it was not given.
  absl::Duration WaitTimeout() const;
  std::unique_ptr<Printer> MakePrinter() const;
};

}  // namespace pto::ptoctl

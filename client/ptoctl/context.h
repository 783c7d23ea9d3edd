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

// What every command shares: the global options and where to write. Owned by Main; commands
// keep references to it. One thread.
struct Context {
  // Results go to `out`, everything for people to `err`.
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;

  // ---- global options
  std::string output = "table";
  bool quiet = false;
  std::string address = {};
  // Nothing when --timeout was not given.
  absl::optional<absl::Duration> timeout = {};

  // Set by commands that end as another program did.
  absl::optional<int> exit_code = {};
  // Set by commands that read a job, so that errors of the daemon can be found in its file.
  job::SourceMap places = {};

  // Reaches the daemon within --timeout.
  absl::StatusOr<Client> Connect() const;
  // Longest time for one call.
  absl::Duration CallTimeout() const;
  // Longest time to wait for a run: without limit unless --timeout was given.
  absl::Duration WaitTimeout() const;
  std::unique_ptr<Printer> MakePrinter() const;
};

}  // namespace pto::ptoctl

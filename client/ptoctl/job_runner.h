#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/job/prepared_job.h"
#include "client/job/report.pb.h"
#include "client/ptoctl/context.h"
#include "client/ptoctl/interrupt.h"
#include "client/ptoctl/printer.h"

namespace pto::ptoctl {

// Elements that are printed of an output that does not say how many.
inline constexpr uint32_t kDefaultPrint = 8;

struct SubmitOptions {
  // Print events as they arrive.
  bool watch = false;
  // Submit, keep the session, and do not wait.
  bool detach = false;
  // Send the graph in columns.
  bool packed = false;
  // Runs, one after the other, each from the job's first contents.
  uint32_t repeat = 1;
  // Send the tasks in blocks to one open run, all of them so often; 0 means no open run.
  uint64_t stream_rounds = 0;
  // In place of the job's, unless it is unspecified.
  v1::Priority priority = v1::PRIORITY_UNSPECIFIED;
  // Of the session that the job runs in; 0 means the daemon's default.
  uint32_t weight = 0;
  // How long a detached session lives when nobody uses it.
  absl::Duration ttl = absl::Hours(1);
  // File for a trace of the last run (write_trace.h); empty means none.
  std::string trace = {};
};

// Runs one job on a daemon: session, buffers, contents, run, outputs, checks, and the session's
// end in every case but --detach. A Ctrl-C cancels the run and cleans up. One thread.
class JobRunner {
 public:
  // Owns nothing; all must outlive it.
  JobRunner(Client& client, const job::PreparedJob& job, const SubmitOptions& options,
            const Context& context, Printer& printer)
      : client_(client), job_(job), options_(options), context_(context), printer_(printer) {}

  // Prints the report, also of a job that failed. Returns why it failed: the run's error, or
  // CHECK_FAILED, INTERRUPTED, CLIENT_TIMEOUT.
  absl::Status Run();

 private:
  absl::Status RunIn(Session& session);
  // In order of the job's.
  absl::StatusOr<std::vector<Buffer>> CreateBuffers(Session& session);
  absl::Status Upload(const std::vector<Buffer>& buffers, bool first);
  pto::RunOptions Options() const;
  absl::StatusOr<pto::Run> Submit(Session& session);
  // Whether the last run did.
  bool RanWell() const { return StatusOf(*report_.runs().rbegin()).ok(); }
  // Feeds an open run until it has all its tasks and has ended.
  absl::StatusOr<v1::Run> Stream(Session& session);
  absl::StatusOr<v1::Run> Await(const pto::Run& run);
  absl::Status Cancel(const pto::Run& run);
  absl::StatusOr<std::vector<std::string>> Download(const std::vector<Buffer>& buffers);
  absl::Status Check(const std::vector<std::string>& memory);
  absl::Status Output(const std::vector<std::string>& memory);

  Client& client_;
  const job::PreparedJob& job_;
  const SubmitOptions& options_;
  const Context& context_;
  Printer& printer_;
  const Interrupt interrupt_;
  job::v1::Report report_;
};

}  // namespace pto::ptoctl

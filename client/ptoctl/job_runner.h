#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
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

// Number of elements to print for an output that does not specify it.
inline constexpr uint32_t kDefaultPrint = 8;

struct SubmitOptions {
  // Print events as they arrive.
  bool watch = false;
  // Submit, keep the session, and do not wait.
  bool detach = false;
  // Send the graph in the packed columnar format.
  bool packed = false;
  // Number of sequential runs. Each starts from the initial buffer contents of the job.
  uint32_t repeat = 1;
  // If not 0, send all tasks this many times, in segments, to one open run.
  uint64_t stream_rounds = 0;
  // Replaces the priority of the job unless unspecified.
  v1::Priority priority = v1::PRIORITY_UNSPECIFIED;
  // Weight of the session; 0 means the daemon's default.
  uint32_t weight = 0;
  // Lifetime of a detached session after its last use.
  absl::Duration ttl = absl::Hours(1);
  // Session to run in, by name or id; empty means a new one, which is deleted at the end.
  std::string session = {};
  // File for a trace of the last run (see write_trace.h); empty means no trace.
  std::string trace = {};
};

// Runs one job on a daemon: creates a session and buffers, uploads the initial contents, runs the
// graph, and processes outputs and checks. Always closes the session, except with --detach. Ctrl-C
// cancels the run and cleans up. Not thread-safe.
class JobRunner {
 public:
  // Takes no ownership; all arguments must outlive the object.
  JobRunner(Client& client, const job::PreparedJob& job, const SubmitOptions& options,
            const Context& context, Printer& printer)
      : client_(client), job_(job), options_(options), context_(context), printer_(printer) {}

  // Prints the report, also if the job failed. Returns the error of the run, or CHECK_FAILED,
  // INTERRUPTED or CLIENT_TIMEOUT.
  absl::Status Run();

 private:
  absl::Status RunIn(Session& session);
  // The same in a session that goes on.
  absl::Status RunInOpenSession();
  // Uploads the kernels of the job.
  absl::Status RegisterKernels(Session& session);
  // All kernels that tasks of the job can name.
  absl::StatusOr<std::vector<v1::Kernel>> ListKernels();
  // Returns the buffers in the order of `job_.buffers`.
  absl::StatusOr<std::vector<Buffer>> CreateBuffers(Session& session);
  absl::Status Upload(const std::vector<Buffer>& buffers, bool first);
  pto::RunOptions Options() const;
  absl::StatusOr<pto::Run> Submit(Session& session);
  // Whether the last run succeeded.
  bool RanWell() const { return StatusOf(*report_.runs().rbegin()).ok(); }
  // Sends all tasks to an open run and waits for it to end.
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
  // Of the session.
  std::vector<v1::Kernel> kernels_;
  // Buffers and domains that a session that goes on had before, by their names.
  absl::flat_hash_set<std::string> existing_;
  // What it must not keep.
  std::vector<Buffer> own_buffers_;
  std::vector<Domain> own_domains_;
  job::v1::Report report_;
};

}  // namespace pto::ptoctl

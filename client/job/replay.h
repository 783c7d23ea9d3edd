#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/job/prepared_job.h"

namespace pto::job {

// Checks that Replay can run all tasks of the job. JOB_INVALID names the first task that it cannot.
absl::Status CheckReplay(const PreparedJob& job);

// Runs the graph of the job on the client: all tasks in program order, in double arithmetic, with
// results rounded to the element type. Shares no code with the daemon's kernels. Returns the final
// bytes of each buffer, in the order of PreparedJob::buffers.
absl::StatusOr<std::vector<std::string>> Replay(const PreparedJob& job);

}  // namespace pto::job

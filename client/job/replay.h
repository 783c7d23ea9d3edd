#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/job/prepared_job.h"

namespace pto::job {

// Whether Replay can run all tasks of the job; JOB_INVALID names the task that it cannot.
absl::Status CheckReplay(const PreparedJob& job);

// Runs the job's graph on the client: every task in program order, in double arithmetic, rounded
// to the element type when it is stored. Shares no code with the daemon's kernels. Returns the
// bytes of each buffer afterwards, in the order of PreparedJob::buffers.
absl::StatusOr<std::vector<std::string>> Replay(const PreparedJob& job);

}  // namespace pto::job

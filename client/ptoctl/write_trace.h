#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/trace/run_trace.h"

namespace pto::ptoctl {

// Validates the name of a trace file, for Option::Check. Returns an error message, or an empty
// string if the name is valid. The extension selects the format: .json for Perfetto, .html or .svg
// for a picture.
std::string CheckTraceName(const std::string& path);

// Writes a trace in the format that the file extension selects.
absl::Status WriteTrace(const trace::RunTrace& trace, const std::string& path, uint64_t max_edges);

// Fetches the trace of a run, given by full name, from the daemon and writes it.
absl::Status WriteTrace(Client& client, const std::string& run, const std::string& path);

}  // namespace pto::ptoctl

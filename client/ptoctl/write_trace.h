#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/trace/run_trace.h"

namespace pto::ptoctl {

// What is wrong with the name of a trace's file, for Option::Check; empty when nothing is. The
// name says which form it has: .json for Perfetto, .html or .svg for a look.
std::string CheckTraceName(const std::string& path);

// Writes a trace in the form that the file's name says.
absl::Status WriteTrace(const trace::RunTrace& trace, const std::string& path, uint64_t max_edges);

// The same of a run, by its full name, as the daemon knows it.
absl::Status WriteTrace(Client& client, const std::string& run, const std::string& path);

}  // namespace pto::ptoctl

#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace pto::ascend::testing {

// What lines of the fake's trace say against the rules, for each process: violations that the fake
// has noticed, calls after the end, and resources that were not given back. `lost`: a reset, or the
// end of the process, took what was left.
std::vector<std::string> FindBreaches(absl::Span<const std::string> lines, bool lost);

// The lines of a trace.
std::vector<std::string> ReadTrace(const std::string& path);

}  // namespace pto::ascend::testing

#pragma once

#include <vector>

#include "runtime/chip/ascend/cann/library_search.h"
#include "runtime/chip/ascend/doctor/finding.h"

namespace pto::ascend {

// Opens CANN in this process and asks it for its versions and devices. Only in a process that was
// started for it: the libraries may crash or hang.
std::vector<Finding> ProbeCann(const cann::SearchResult& search);

// The same in a child of this process, which is this program again with `--probe` and the right
// library path. Waits for at most `seconds`.
std::vector<Finding> ProbeInChild(const cann::SearchResult& search, int seconds);

}  // namespace pto::ascend

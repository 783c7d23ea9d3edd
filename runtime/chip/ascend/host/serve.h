#pragma once

#include <string>

namespace pto::ascend {

// Runs this process as the host of one chip, with the descriptors that HostProcess gives it.
// Returns the exit code if it cannot begin.
int ServeChip(const std::string& cann_path);

}  // namespace pto::ascend

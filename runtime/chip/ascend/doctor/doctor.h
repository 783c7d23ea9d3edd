#pragma once

#include <string>
#include <vector>

#include "runtime/chip/ascend/doctor/finding.h"

namespace pto::ascend {

// All that can be found out about this machine, and what to do about each problem. Takes at most
// some seconds. `cann_path` is where CANN is; empty: search it.
std::vector<Finding> Examine(const std::string& cann_path, const std::string& devices = "/dev");

}  // namespace pto::ascend

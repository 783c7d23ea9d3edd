#pragma once

#include <string>
#include <vector>

#include "runtime/chip/ascend/cann/library_search.h"
#include "runtime/chip/ascend/doctor/finding.h"

namespace pto::ascend {

// What is looked at without opening a library of CANN. Each adds its findings. `devices` is /dev.

void CheckToolkit(const cann::SearchResult& search, std::vector<Finding>* findings);
void CheckDeviceNodes(const std::string& devices, std::vector<Finding>* findings);
void CheckNetwork(std::vector<Finding>* findings);
void CheckLimits(std::vector<Finding>* findings);
void CheckSandbox(std::vector<Finding>* findings);

}  // namespace pto::ascend
